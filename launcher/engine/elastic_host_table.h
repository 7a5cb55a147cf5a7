// The hosts of an elastic job as its launcher holds them, by the driver's numbers: which agent is
// there now, what it told, which interface its workers use. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_HOST_TABLE_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_HOST_TABLE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/engine/elastic_nics.h"
#include "launcher/report/job_report.h"
#include "wire/message.h"

namespace hvdray {

struct ElasticHost {
  HostSlots slots;
  int agent = -1;         ///< Its number; -1: none.
  bool is_ready = false;  ///< Hello has come.
  bool is_remote = false;
  bool is_elsewhere = false;
  bool has_workers = false;  ///< This agent was given some.
  wire::HostFacts facts;
  std::optional<NicChoice> nic;        ///< Kept while it has workers.
  std::optional<SyncStats> sync;       ///< What --sync brought there.
  std::string worker_folder;           ///< In that copy; empty: as the plan says.
  std::optional<Generation> stopping;  ///< A StopGeneration that is not answered yet.
  RelayStats relay;
};

/// Threads: one.
class ElasticHostTable {
 public:
  ElasticHost& At(int host);
  int size() const { return static_cast<int>(hosts_.size()); }
  bool IsKnown(int host) const { return host >= 0 && host < size(); }
  /// The host whose present agent that is; -1: of none any more.
  int HostOf(int agent) const;

  /// A new agent is on its way there.
  void Connect(int host, const HostSlots& slots, int agent);
  /// It is gone, or is to be left alone from now on. Returns its number.
  int Disconnect(int host);

  /// Whether the workers of that host, whose facts are known, could reach the others'. Errors:
  /// kNoUsableInterface.
  Status CheckNic(const ElasticNics& nics, int host);
  /// Of all ready hosts.
  Status ChooseNics(const ElasticNics& nics);

  /// Of every host that was ever connected to.
  std::vector<HostReport> Report() const;

 private:
  std::vector<ElasticHost> hosts_;
  std::map<int, int> host_of_agent_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_HOST_TABLE_H_
