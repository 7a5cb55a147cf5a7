// SPDX-License-Identifier: Apache-2.0
// Lines of --events for facts and effects that only elastic jobs have (docs/report.md, "Events of
// an elastic job"). Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_ELASTIC_EVENT_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_ELASTIC_EVENT_LINES_H_

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "launcher/driver/elastic_events.h"
#include "wire/message.h"

namespace hvdray {

// Names for the numbers of hosts and workers in the facts and effects of an elastic job, collected
// from these as they pass. Values only.

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

/// Makes the lines of one job. Threads: one.
class ElasticEventLines {
 public:
  /// Lines without their times, "event" first. No lines for Tick, for messages to the user, for an
  /// unchanged answer of the host source, and for the kinds that static jobs have, too.
  std::vector<Json> Lines(const ElasticEvent& event);
  std::vector<Json> Lines(const ElasticEffect& effect);
  /// The line "connections_broken".
  Json Broken(int host, Generation generation, const wire::ConnectionsBroken& broken) const;

  std::string HostName(int host) const { return names_.HostName(host); }

 private:
  Json WorkerLine(std::string_view event, WorkerId worker) const;
  std::vector<Json> Discovered(const event::HostsDiscovered& found);
  std::vector<Json> Failed(const event::DiscoveryFailed& failed);
  std::vector<Json> Starting(const effect::StartWorkers& start) const;
  Json Published(const effect::PublishGeneration& publish) const;
  Json HostNames(const std::vector<int>& hosts) const;

  ElasticNames names_;
  std::string last_answer_;  // The host source's, as JSON; empty: none yet.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_ELASTIC_EVENT_LINES_H_
