// SPDX-License-Identifier: Apache-2.0
// The settings of a job's hosts, from the user's SSH configuration, with as few runs of `ssh -G` as
// possible.
#ifndef HVDRAY_CLUSTER_SSH_SSH_CONFIG_SOURCE_H_
#define HVDRAY_CLUSTER_SSH_SSH_CONFIG_SOURCE_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cluster/ssh/ssh_config.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// What one run of `ssh -G` printed.
struct SshGOutput {
  std::vector<SshConfigLine> lines;
  std::string errors;  ///< Its stderr.
};

/// Runs `ssh -G` for `target`. `program` is looked up in PATH; nullopt: not found. `is_verbose`:
/// with -v, for FilesReadBySsh(). Blocks. Threads: any. Errors: kSpecInvalid (with ssh's message),
/// kConnectTimeout, kCancelled.
Result<std::optional<SshGOutput>> RunSshG(const std::string& program, const SshTarget& target,
                                          const SshOverrides& overrides, bool is_verbose,
                                          const SshLimit& limit);

/// True for an ELF executable. False for a script: a wrapper called ssh may have its own rules for
/// each host. Searches PATH as RunSshG() does. Blocks. Threads: any.
bool IsCompiledProgram(const std::string& program);

/// Runs `ssh -G` for one host of each class (SshHostClasses) and reuses its answer for the others;
/// reads the files itself when there is no such program. Answers are valid until one of the files
/// that ssh read changes, but at most for kFresh, since new files may appear.
/// Threads: any, concurrently. Calls block; a call whose class is being asked for waits for it.
class SshConfigSource {
 public:
  static constexpr Duration kFresh = std::chrono::seconds(5);

  /// `ssh_program` is looked up in PATH; empty: never run it.
  SshConfigSource(SshOverrides overrides, SshUser user, std::string ssh_program)
      : overrides_(std::move(overrides)),
        user_(std::move(user)),
        ssh_program_(std::move(ssh_program)) {}

  /// The settings for one host. Also reads the identity files and asks the agent, since
  /// needs_openssh depends on the keys. Errors: kSpecInvalid (with ssh's message), kConnectTimeout,
  /// kCancelled.
  Result<SshSettings> Settings(const SshTarget& target, const SshLimit& limit);
  /// Reads no keys. Errors: as Settings().
  Result<OpensshNeeds> NeedsOfOpenssh(const SshTarget& target, const SshLimit& limit);

  /// Number of ssh runs. For tests.
  int run_count() const;

 private:
  using Lines = std::vector<SshConfigLine>;
  /// The answer for one class. `is_there` without `lines`: other hosts can't use it.
  struct Answer {
    bool is_there = false;
    std::string host;
    std::optional<Lines> lines;
  };
  enum class Part : uint8_t { kAlone, kFirst, kFirstOfClass, kOther };
  /// What a thread must do for its host.
  struct Turn {
    Part part = Part::kAlone;
    std::string class_key;
    int round = 0;
    std::optional<Lines> lines;  // kOther
  };

  /// State of a file when ssh read it.
  struct Stamp {
    std::string path;
    std::array<int64_t, 7> facts{};
    bool operator==(const Stamp&) const = default;
  };
  /// The files of a configuration, and the classes of hosts that they tell apart.
  struct Found {
    SshHostClasses classes;
    std::vector<Stamp> files;
  };

  static Stamp StampOf(const std::string& path);
  static Found FindClasses(const std::string& verbose);
  bool IsFresh() const;
  Result<Lines> LinesFor(const SshTarget& target, const SshLimit& limit);
  Turn TakeTurn(const SshTarget& target);
  std::optional<Turn> TurnNow(const SshTarget& target);
  Result<Lines> AskFirst(const SshTarget& target, const SshLimit& limit);
  Result<Lines> Ask(const SshTarget& target, const SshLimit& limit);
  Result<std::optional<SshGOutput>> Run(const SshTarget& target, bool is_verbose,
                                        const SshLimit& limit);
  void PublishClasses(const SshTarget& target, Found found, Lines lines);
  void PublishAnswer(const Turn& turn, const std::string& host, const Result<Lines>& lines);

  const SshOverrides overrides_;
  const SshUser user_;
  const std::string ssh_program_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable news_;
  int run_count_ = 0;
  int round_ = 0;  // counts PublishClasses()
  bool is_first_asking_ = false;
  std::optional<Found> found_;
  TimePoint found_until_{};
  std::map<std::string, Answer> answers_;  // by class
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONFIG_SOURCE_H_
