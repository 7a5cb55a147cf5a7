// The settings of a job's hosts, from the user's SSH configuration, with as few runs of `ssh -G` as
// their differences allow.
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
#include "cluster/ssh/ssh_g.h"
#include "cluster/ssh/ssh_host_classes.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// Asks `ssh -G` for one host of each class (SshHostClasses) and gives its answer to the others, or
/// reads the files when there is no such program. What was learnt counts until one of the files
/// that ssh read changes, and for kFresh at most, for there may be new ones.
/// Threads: any, at the same time; calls block, those for hosts whose answer is under way wait.
class SshConfigSource {
 public:
  static constexpr Duration kFresh = std::chrono::seconds(5);

  /// `ssh_program` is looked up in PATH; empty: never run.
  SshConfigSource(SshOverrides overrides, SshUser user, std::string ssh_program)
      : overrides_(std::move(overrides)),
        user_(std::move(user)),
        ssh_program_(std::move(ssh_program)) {}

  /// Looks also at the identity files, for what needs_openssh depends on. Errors: kSpecInvalid
  /// (ssh's own words), kConnectTimeout, kCancelled.
  Result<SshSettings> Settings(const SshTarget& target, const SshLimit& limit);
  /// The same, but only what to do about host keys that are not known. Looks at no key.
  Result<HostKeyPolicy> HostKeys(const SshTarget& target, const SshLimit& limit);

  /// How often ssh was run. For tests.
  int run_count() const;

 private:
  using Lines = std::vector<SshConfigLine>;
  /// Of one class: nullopt in `lines`, once it is there, says that nobody else can use it.
  struct Answer {
    bool is_there = false;
    std::string host;
    std::optional<Lines> lines;
  };
  enum class Part : uint8_t { kAlone, kFirst, kFirstOfClass, kOther };
  /// What a thread has to do for its host.
  struct Turn {
    Part part = Part::kAlone;
    std::string class_key;
    int round = 0;
    std::optional<Lines> lines;  // kOther
  };

  /// A file that ssh read, as it was then.
  struct Stamp {
    std::string path;
    std::array<int64_t, 7> facts{};
    bool operator==(const Stamp&) const = default;
  };
  /// What a configuration consists of.
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
  int round_ = 0;  // counts the classes that were found
  bool is_first_asking_ = false;
  std::optional<Found> found_;
  TimePoint found_until_{};
  std::map<std::string, Answer> answers_;  // by class
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_CONFIG_SOURCE_H_
