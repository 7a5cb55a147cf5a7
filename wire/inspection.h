// SPDX-License-Identifier: Apache-2.0
// The messages of `hvdray check`, which inspects a host beyond the facts of its Hello. Part of
// message.h; values. docs/protocol.md is normative.
#ifndef HVDRAY_WIRE_INSPECTION_H_
#define HVDRAY_WIRE_INSPECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/path_walk.h"

namespace hvdray::wire {

inline constexpr size_t kMaxInspected = 256;           ///< Elements per list of an Inspection.
inline constexpr size_t kMaxInspectStrings = 8 << 20;  ///< Bytes of all strings of an Inspect.

inline constexpr size_t kMaxTrustees = 64;  ///< Owners, and groups.

/// Of a directory that is there already: if it is checked, nobody but the agent's user, root and
/// the trustees may own it or write to it, or to a directory on the way there. They could change
/// what is executed in it.
struct DirectoryTrust {
  bool is_checked = false;
  Trustees trustees;
  bool operator==(const DirectoryTrust&) const = default;
};

/// Launcher to agent: report the state of this host as a job that starts now would find it.
struct Inspect {
  uint32_t timeout_ms = 5000;        ///< The agent answers within this time, with what it knows.
  std::string working_directory;     ///< The workers'; empty: the agent's own.
  std::string command;               ///< The command's first word; empty: do not look for it.
  std::string path;                  ///< The workers' PATH; empty: none.
  std::vector<std::string> files;    ///< Files that the command's arguments name.
  std::vector<std::string> modules;  ///< Python modules to import, such as "torch".
  std::vector<std::string> environment;  ///< For the import: "NAME=VALUE"; empty: the agent's own.
  DirectoryTrust directory_trust = {};
  bool operator==(const Inspect&) const = default;
};

/// A directory that a job uses, and its file system.
struct DirectoryFacts {
  std::string use;    ///< "agent", "home", "working", "tmp", "shm"
  std::string path;   ///< Empty: not set (no HOME).
  int32_t error = 0;  ///< errno of opening it, EPERM: not trusted; if not 0, the rest is 0.
  bool is_writable = false;
  bool is_noexec = false;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< Available to this user.
  bool operator==(const DirectoryFacts&) const = default;
};

/// A resource limit of the agent.
struct LimitFacts {
  std::string name;   ///< As in limits.conf: "nofile".
  uint64_t soft = 0;  ///< UINT64_MAX: unlimited.
  uint64_t hard = 0;
  bool operator==(const LimitFacts&) const = default;
};

/// A file of Inspect::files that a worker could not read.
struct MissingFile {
  std::string path;   ///< As in the Inspect.
  int32_t error = 0;  ///< errno
  bool operator==(const MissingFile&) const = default;
};

/// The result of importing one of Inspect::modules.
struct ModuleFacts {
  std::string name;
  std::string version;  ///< Its __version__; empty: none.
  std::string
      trouble;  ///< Why the import failed: the last line of Python's output. Empty: imported.
  bool operator==(const ModuleFacts&) const = default;
};

/// A version that matters to training: of "Python", "torch", "horovod", "NCCL".
struct PackageFacts {
  std::string name;
  std::string version;
  bool operator==(const PackageFacts&) const = default;
};

/// A variable that libraries of training read.
struct VariableFacts {
  std::string name;    ///< "NCCL_SOCKET_IFNAME"
  std::string value;   ///< The first 1024 bytes.
  std::string source;  ///< "login": the agent's own environment; "nccl.conf": NCCL's files.
  bool operator==(const VariableFacts&) const = default;
};

/// A GPU that nvidia-smi lists.
struct GpuFacts {
  std::string name;           ///< "NVIDIA H100 80GB HBM3"
  uint64_t memory_bytes = 0;  ///< 0: unknown.
  int64_t ecc_errors = -1;    ///< Uncorrected, since the driver was loaded; -1: unknown, no ECC.
  /// Why its clocks are lowered now; bits of nvmlClocksEventReasons.
  uint32_t throttle_reasons = 0;
  uint32_t nvlinks = 0;  ///< Links to other GPUs that are up.
  bool operator==(const GpuFacts&) const = default;
};

/// Agent to launcher, once per Inspect. Unknown texts are empty, unknown numbers 0.
struct Inspection {
  uint64_t received_ns = 0;  ///< Wall clock when the Inspect arrived, ns since 1970.
  uint64_t sent_ns = 0;      ///< Wall clock when this was sent.
  std::string kernel;        ///< uname -r
  std::string distribution;  ///< "Debian GNU/Linux 12 (bookworm)"
  std::string libc;          ///< The host's own: "glibc 2.36", "musl 1.2.4".
  uint64_t memory_bytes = 0;
  uint64_t available_bytes = 0;     ///< Available memory.
  uint64_t memory_limit_bytes = 0;  ///< The control group's limit; 0: none.
  std::vector<DirectoryFacts> directories;
  std::vector<LimitFacts> limits;
  std::vector<GpuFacts> gpus;
  uint32_t gpu_device_count = 0;            ///< Number of /dev/nvidia0, /dev/nvidia1, …
  std::string gpu_driver;                   ///< "535.104.05"
  std::string gpu_trouble;                  ///< The error that nvidia-smi reports.
  uint32_t infiniband_count = 0;            ///< Number of InfiniBand devices.
  std::string command_path;                 ///< The file that would be executed.
  int32_t command_error = 0;                ///< errno of its look-up; ELIBACC: no interpreter.
  std::string command_interpreter;          ///< With ELIBACC: the interpreter in its first line.
  std::string command_version;              ///< If it is a Python: "Python 3.11.2".
  std::vector<std::string> name_addresses;  ///< What the host's own name resolves to, in order.
  std::vector<MissingFile> missing_files;
  std::vector<ModuleFacts> modules;
  std::vector<PackageFacts> packages;    ///< Of the workers' Python; empty: there is none.
  std::vector<VariableFacts> variables;  ///< No secrets.
  std::vector<std::string> unanswered;   ///< What took too long: "free disk of /data", …
  bool operator==(const Inspection&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_INSPECTION_H_
