// What `hvdray check` has learnt of the hosts of a job. Plain values, filled in by the engine and
// judged by check_findings.h.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_FACTS_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_FACTS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// How far a host's wall clock is ahead of ours (negative: behind). The truth is within `offset`
/// plus and minus `bound`, whatever the network did.
struct ClockReading {
  std::chrono::nanoseconds offset{};
  std::chrono::nanoseconds bound{};
};

/// From the wall clock here when the question went off and when its answer came, in ns since 1970,
/// and there. Source: RFC 5905, section 8, offset and delay of one exchange.
ClockReading ReadClock(uint64_t asked_ns, uint64_t answered_ns, const wire::Inspection& inspection);

struct CheckedHost {
  std::string name;
  int slots = 0;
  int workers = 0;  ///< That a job with this -np would start there.
  bool is_remote = false;
  Status lost;  ///< Not ok: it did not become ready, or was lost afterwards. The rest may be empty.
  std::optional<Duration> ready_after;  ///< From the first attempt to its Hello.
  std::string build;                    ///< Of its agent.
  wire::HostFacts facts;
  std::optional<wire::Inspection> inspection;
  std::optional<ClockReading> clock;
  std::string nic;  ///< Empty: none was chosen.
  std::string address;
  Status nic_status;  ///< Why none was.
};

/// One way between two hosts that is closed; indices of hosts. from == to: its agent has not
/// answered, or has no port that others could connect to.
struct ClosedWay {
  size_t from = 0;
  size_t to = 0;
  Status why;
};

struct CheckFacts {
  std::string build;  ///< Of hvdray here.
  int np = 0;
  std::string command;              ///< Its first word; empty: none was given.
  std::string script;               ///< What Python is to run; empty: none is known.
  std::string working_folder;       ///< Of workers on other hosts; empty: their home.
  bool is_folder_optional = false;  ///< It is only where hvdray happens to run.
  bool is_folder_synced = false;    ///< Other hosts get a copy of it before workers start.
  std::vector<CheckedHost> hosts;
  std::vector<std::string> unused_hosts;  ///< Without a worker, so not asked.
  Status slots;                           ///< kNotEnoughSlots
  Status interfaces;                      ///< Why no host got one, where that is no host's fault.
  bool is_probed = false;                 ///< Hosts have tried to reach each other.
  std::vector<ClosedWay> closed_ways;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_FACTS_H_
