// Who is meant by the numbers of hosts and workers in the facts and effects of an elastic job:
// learnt from those that say it, as they pass. Values only.
#ifndef HVDRAY_LAUNCHER_REPORT_ELASTIC_NAMES_H_
#define HVDRAY_LAUNCHER_REPORT_ELASTIC_NAMES_H_

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/driver/elastic_events.h"

namespace hvdray {

/// The kinds that static jobs have too, as those know them; nullopt for the others.
std::optional<Event> AsStatic(const ElasticEvent& event);
std::optional<Effect> AsStatic(const ElasticEffect& effect);

class ElasticNames {
 public:
  /// A worker as it was started; a later generation may have given it another rank.
  struct Worker {
    int host = -1;
    int local_rank = 0;
    int rank = 0;
    Generation generation = 0;
    uint32_t pid = 0;             ///< 0: not known yet.
    bool is_told_to_end = false;  ///< By us, so its exit is no failure.
  };

  /// Feed every fact and every effect, each before it is shown.
  void Learn(const ElasticEvent& event);
  void Learn(const ElasticEffect& effect);

  /// Empty: never heard of.
  std::string HostName(int host) const;
  /// nullptr: never heard of.
  const Worker* Find(WorkerId worker) const;
  /// Whose place in its published generation that worker has taken; kNoWorker: nobody's.
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
