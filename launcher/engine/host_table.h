// SPDX-License-Identifier: Apache-2.0
// The hosts of a job on the launcher's side, by the driver's numbers: the present agent,
// its facts, the interface of its workers. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_HOST_TABLE_H_
#define HVDRAY_LAUNCHER_ENGINE_HOST_TABLE_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/engine/elastic_nics.h"
#include "launcher/engine/sync_plan.h"
#include "launcher/report/job_report.h"
#include "wire/message.h"

namespace hvdray {

/// One host; facts and choices belong to its present agent.
struct JobHost {
  HostSlots slots;
  int agent = -1;         ///< Its number in AgentSet; -1: none.
  bool is_ready = false;  ///< Hello has arrived.
  bool is_remote = false;
  bool is_elsewhere = false;  ///< Another machine.
  bool has_workers = false;   ///< This agent got workers.
  wire::HostFacts facts;
  std::optional<NicChoice> nic;        ///< Fixed while it has workers.
  std::optional<SyncStats> sync;       ///< What --sync copied there.
  std::string worker_directory;        ///< Within that copy; empty: as in the plan.
  std::optional<Generation> stopping;  ///< StopGeneration sent, not answered yet.
  RelayStats relay;
};

/// Threads: one.
class HostTable {
 public:
  /// Adds the host if it is new. Valid until the next new host.
  JobHost& At(int host);
  int size() const { return static_cast<int>(hosts_.size()); }
  bool IsKnown(int host) const { return host >= 0 && host < size(); }
  /// The host whose present agent that is; -1: no host's.
  int HostOf(int agent) const;

  /// Records that a new agent is being started there.
  void Connect(int host, const HostSlots& slots, int agent);
  /// Its agent is gone or released. Returns that agent's number.
  int Disconnect(int host);
  /// Forgets all hosts. Returns those whose agents are ready; the others' are given up.
  std::vector<JobHost> TakeReady();
  /// A host that TakeReady() returned, with its agent.
  void Adopt(int host, const HostSlots& slots, JobHost entry);

  /// The host has its copies of --sync, in `roots`. `place`: where workers start, if within one.
  void NoteCopy(int host, const SyncStats& stats, std::span<const std::string> roots,
                const std::optional<SyncedPlace>& place);

  /// Ok if the workers of that host, whose facts are known, could reach the others. Errors:
  /// kNoUsableInterface.
  Status CheckNic(const ElasticNics& nics, int host);
  /// Chooses the interface of every ready host that has none. Errors: kNoUsableInterface.
  Status ChooseNics(const ElasticNics& nics);

  /// One row for each host ever connected, for the report.
  std::vector<HostReport> Report() const;

 private:
  std::vector<JobHost> hosts_;
  std::map<int, int> host_of_agent_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_HOST_TABLE_H_
