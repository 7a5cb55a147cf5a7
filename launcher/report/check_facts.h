// SPDX-License-Identifier: Apache-2.0
// The facts that `hvdray check` collects about the hosts of a job, filled in by the engine, and
// what is found wrong with them. Plain values. docs/check.md.
#ifndef HVDRAY_LAUNCHER_REPORT_CHECK_FACTS_H_
#define HVDRAY_LAUNCHER_REPORT_CHECK_FACTS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "wire/message.h"

namespace hvdray {

/// How far a host's wall clock is ahead of ours (negative: behind). The true value is within
/// `offset` ± `bound`, whatever the network did.
struct ClockReading {
  std::chrono::nanoseconds offset{};
  std::chrono::nanoseconds bound{};
};

/// `asked_ns`, `answered_ns`: our wall clock at the question and at its answer, ns since 1970.
/// Source: RFC 5905, section 8, offset and delay of one exchange.
ClockReading ReadClock(uint64_t asked_ns, uint64_t answered_ns, const wire::Inspection& inspection);

/// One host, as far as it has answered.
struct CheckedHost {
  std::string name;
  int slots = 0;
  int workers = 0;  ///< Workers that a job with this -np would start there.
  bool is_remote = false;
  Status lost;  ///< Not ok: it did not become ready, or was lost later. Other fields may be empty
                ///< then.
  std::optional<Duration> ready_after;  ///< From the first dial to its Hello.
  std::string build;                    ///< Its agent's.
  wire::HostFacts facts;
  std::optional<wire::Inspection> inspection;
  std::optional<ClockReading> clock;
  std::string nic;  ///< Empty: no choice.
  std::string address;
  Status nic_status;  ///< Why there is no choice.
};

/// A failed connection from one host to another, by host index. from == to: the host's agent has
/// not answered, or has no port for the others.
struct ClosedWay {
  size_t from = 0;
  size_t to = 0;
  Status why;
};

/// What a pair of hosts, by host index, has measured. from == to: the host's agent has not
/// answered.
struct MeasuredPair {
  size_t from = 0;  ///< It connected to the other one.
  size_t to = 0;
  Status why = {};                        ///< Not ok: there are no numbers.
  std::chrono::nanoseconds round_trip{};  ///< Median of small messages.
  double there = 0;                       ///< Bytes per second that arrived at `to`.
  double back = 0;                        ///< Bytes per second that arrived at `from`.
};

/// A program `hvdray` on PATH that is not this one.
struct OtherProgram {
  std::string path;
  std::string build;  ///< Empty: it does not say.
};

/// All facts about a job's hosts.
struct CheckFacts {
  std::string build;                 ///< Of this hvdray.
  std::string path;                  ///< Of this hvdray.
  std::vector<OtherProgram> others;  ///< In the order of PATH.
  int np = 0;
  std::string command;               ///< The program; empty: none given.
  std::string script;                ///< The Python script; empty: none known.
  std::string working_directory;     ///< Of workers on other hosts; empty: the home directory.
  bool is_directory_synced = false;  ///< --sync copies it to other hosts.
  std::vector<CheckedHost> hosts;
  std::vector<std::string> unused_hosts;  ///< They get no worker and were not asked.
  Status slots;                           ///< kNotEnoughSlots
  Status interfaces;       ///< Why no host got one, if that is no single host's fault.
  bool is_probed = false;  ///< The hosts have probed each other.
  std::vector<ClosedWay> closed_ways;
  std::vector<MeasuredPair> pairs;  ///< In the order in which they were measured.
};

/// What a finding is about; stable names for programs.
inline constexpr std::array<std::string_view, 24> kFindingKinds = {
    "slots",      "host",           "silent",        "interface",   "network",     "slow",
    "unmeasured", "working_folder", "command",       "files",       "imports",     "host_name",
    "clock",      "disk",           "shared_memory", "limits",      "cpus",        "memory",
    "gpus",       "build",          "unanswered",    "differences", "one_machine", "other_hvdray"};

/// One problem, with its remedy.
struct Finding {
  std::string_view kind;  ///< One of kFindingKinds.
  /// The error that a job would end with. kOk, a warning: it would start, but may have problems.
  ErrorCode code = ErrorCode::kOk;
  std::string text;                ///< One line; names the hosts.
  std::string hint;                ///< One line: how to fix it.
  std::vector<std::string> hosts;  ///< Empty: not about hosts.
  bool is_error() const { return code != ErrorCode::kOk; }
};

// Amounts as text and JSON show them.
/// A limit that is absent.
inline constexpr uint64_t kUnlimited = UINT64_MAX;
/// "12.5 GiB"; "none" for an absent limit.
std::string ShowBytes(uint64_t bytes);
/// The modules that could be imported: "torch 2.1.0, horovod.torch".
std::string ShowModules(const wire::Inspection& inspection);
/// "8 x NVIDIA H100 80GB HBM3", "no GPU".
std::string ShowGpus(const wire::Inspection& inspection);

/// Of each GPU: "18 18 18 18"; empty: no GPU.
std::string ShowNvlinks(const wire::Inspection& inspection);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CHECK_FACTS_H_
