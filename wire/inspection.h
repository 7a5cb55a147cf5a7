// SPDX-License-Identifier: Apache-2.0
// The messages of `hvdray check`: what is a host like, beyond what its Hello says? Part of
// message.h, which is what users include; docs/protocol.md is the normative text.
#ifndef HVDRAY_WIRE_INSPECTION_H_
#define HVDRAY_WIRE_INSPECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdray::wire {

inline constexpr size_t kMaxInspected = 256;           ///< Elements of each array of an Inspection.
inline constexpr size_t kMaxInspectStrings = 8 << 20;  ///< Bytes of the strings of an Inspect.

/// Launcher to agent: say what this host is like, as a job that starts now would find it.
struct Inspect {
  uint32_t timeout_ms = 5000;            ///< By then the answer is on its way, with what is known.
  std::string working_directory;         ///< Of the workers; empty: the agent's own.
  std::string command;                   ///< Its first word; empty: there is none to look for.
  std::string path;                      ///< PATH of the workers; empty: they have none.
  std::vector<std::string> files;        ///< Arguments that name files, as the workers see them.
  std::vector<std::string> modules;      ///< Of Python, to be imported: "torch".
  std::vector<std::string> environment;  ///< For that: "NAME=VALUE"; empty: the agent's own.
  bool operator==(const Inspect&) const = default;
};

/// A directory that a job uses, and the file system below it.
struct DirectoryFacts {
  std::string use;    ///< "agent", "home", "working", "tmp", "shm"
  std::string path;   ///< Empty: there is none (no HOME).
  int32_t error = 0;  ///< errno: not there, no directory, not to be entered. The rest is 0 then.
  bool is_writable = false;
  bool is_noexec = false;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< For this user.
  bool operator==(const DirectoryFacts&) const = default;
};

struct LimitFacts {
  std::string name;   ///< "nofile", as in ulimit's and limits.conf's names.
  uint64_t soft = 0;  ///< UINT64_MAX: none.
  uint64_t hard = 0;
  bool operator==(const LimitFacts&) const = default;
};

/// A file of Inspect::files that a worker could not read.
struct MissingFile {
  std::string path;   ///< As it was asked for.
  int32_t error = 0;  ///< errno
  bool operator==(const MissingFile&) const = default;
};

/// What became of importing one of Inspect::modules.
struct ModuleFacts {
  std::string name;
  std::string version;  ///< Its __version__; empty: it has none.
  std::string trouble;  ///< Why it cannot be imported: the last line of what Python said.
  bool operator==(const ModuleFacts&) const = default;
};

struct GpuFacts {
  std::string name;           ///< "NVIDIA H100 80GB HBM3"
  uint64_t memory_bytes = 0;  ///< 0: unknown.
  bool operator==(const GpuFacts&) const = default;
};

/// Agent to launcher, once for an Inspect. Texts are empty and numbers 0 where nothing is known.
struct Inspection {
  uint64_t received_ns = 0;  ///< Wall clock when the Inspect came, since 1970.
  uint64_t sent_ns = 0;      ///< The same when this went off.
  std::string kernel;        ///< uname -r
  std::string distribution;  ///< "Debian GNU/Linux 12 (bookworm)"
  std::string libc;          ///< The host's own: "glibc 2.36", "musl 1.2.4".
  uint64_t memory_bytes = 0;
  uint64_t available_bytes = 0;     ///< Of the memory.
  uint64_t memory_limit_bytes = 0;  ///< Of the control group; 0: none.
  std::vector<DirectoryFacts> directories;
  std::vector<LimitFacts> limits;
  std::vector<GpuFacts> gpus;
  uint32_t gpu_device_count = 0;            ///< /dev/nvidia0 and so on.
  std::string gpu_driver;                   ///< "535.104.05"
  std::string gpu_trouble;                  ///< What nvidia-smi says is wrong.
  uint32_t infiniband_count = 0;            ///< Devices.
  std::string command_path;                 ///< The file that would be executed.
  int32_t command_error = 0;                ///< errno; ELIBACC: its interpreter is missing.
  std::string command_interpreter;          ///< With ELIBACC: what its first line names.
  std::string command_version;              ///< Of a Python: "Python 3.11.2".
  std::vector<std::string> name_addresses;  ///< Those of the host's own name, in its own order.
  std::vector<MissingFile> missing_files;
  std::vector<ModuleFacts> modules;
  std::vector<std::string> unanswered;  ///< What did not come in time: "free disk of /data", …
  bool operator==(const Inspection&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_INSPECTION_H_
