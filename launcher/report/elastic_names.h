// SPDX-License-Identifier: Apache-2.0
// Names for the numbers of hosts and workers in the facts and effects of an elastic job, collected
// from these as they pass. Values only.
#ifndef HVDRAY_LAUNCHER_REPORT_ELASTIC_NAMES_H_
#define HVDRAY_LAUNCHER_REPORT_ELASTIC_NAMES_H_

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/driver/events.h"

namespace hvdray {

/// Converts the kinds that static jobs have, too; nullopt for the others.
std::optional<Event> AsStatic(const ElasticEvent& event);
std::optional<Effect> AsStatic(const ElasticEffect& effect);

/// Grows with the job's hosts and workers. Threads: one.
class ElasticNames {
 public:
  /// A worker as it was started; its rank may have changed since.
  struct Worker {
    int host = -1;
    int local_rank = 0;
    int rank = 0;
    Generation generation = 0;
    uint32_t pid = 0;             ///< 0: unknown yet.
    bool is_told_to_end = false;  ///< By us: its exit is not a failure.
  };

  /// Call for every fact and effect, before printing it.
  void Learn(const ElasticEvent& event);
  void Learn(const ElasticEffect& effect);

  /// Empty: never heard of.
  std::string HostName(int host) const;
  /// nullptr: never heard of.
  const Worker* Find(WorkerId worker) const;
  /// The worker that this one replaces in its published generation; kNoWorker: none.
  WorkerId FormerOf(WorkerId worker) const;

 private:
  void LearnHost(int host, const std::string& name);
  void LearnReplaced(const NewWorker& started, Generation generation);
  void LearnWorker(WorkerId worker, const RankInfo& place, Generation generation);

  std::unordered_map<int, std::string> hosts_;
  std::unordered_map<WorkerId, Worker> workers_;
  Generation published_ = 0;
  std::vector<WorkerId> members_;  // Of that, by rank.
  std::unordered_map<WorkerId, WorkerId> formers_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_ELASTIC_NAMES_H_
