// SPDX-License-Identifier: Apache-2.0
// Every command of hvdray and every option, once: the parser, the resolver, help, man pages
// and completions all read these tables. They decide nothing.
#ifndef HVDRAY_LAUNCHER_JOB_OPTION_TABLE_H_
#define HVDRAY_LAUNCHER_JOB_OPTION_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/job/job_spec.h"

namespace hvdray {

/// One a row, in the table's order.
// clang-format off
enum class OptionId : uint8_t {
  kHelp, kVersion, kCheckBuild,
  kJobFile, kEnv, kCleanEnv, kKeepRankVariables, kCwd, kSync, kTorchEnv, kOmpThreads, kChannel, kPreload, kHorovod,
  kNumProc, kHosts, kHostfile, kCluster, kSlotsPerHost, kDisableCache,
  kHostDiscoveryScript, kMinNp, kMaxNp, kElasticTimeout, kResetLimit, kBlacklistCooldownRange,
  kElasticMode, kJoin, kSuccess, kDiscoveryInterval, kDiscoveryTimeout, kStragglerTimeout, kSettle, kBreakConnections,
  kMaxRestarts, kGrace, kTimeout, kStartTimeout, kHeartbeatTimeout,
  kOutputFilename, kPrefixTimestamp, kTagOutput, kStdin, kColor, kQuiet, kVerbose, kLogJson,
  kDryRun, kPrintPlan, kPrintConfig, kReport, kEvents, kJunit, kTrace, kRecord,
  kNetworkInterfaces, kMasterPort, kPeerCheck, kKvHold, kAgentPath, kSshPort, kSshIdentityFile,
  kSshTransport, kSshConfig, kStrictHostKeyChecking, kSshConnections, kLaunchAgent, kRemoteDir, kForceRemote,
  kRay, kRayAddress, kRayVerify, kRayHeaders, kRayPython, kKeepRayEnv, kDetach,
  kStopWithClient, kRayLogLimit, kWorkingDir, kExclude, kRuntimeEnv,
  kNumHosts, kNumSlots, kCpusPerSlot, kGpusPerSlot, kUseGpu, kResourcesPerSlot, kLabelSelector, kStrategy,
  kPlacementGroupTimeout, kGpuVisibility, kBackend,
  kConfigFile, kFusionThresholdMb, kCycleTimeMs, kCacheCapacity, kHierarchicalAllreduce,
  kHierarchicalAllgather, kTorusAllreduce, kTcp,
  kAutotune, kAutotuneLogFile, kAutotuneWarmupSamples, kAutotuneStepsPerSample,
  kAutotuneBayesOptMaxSamples, kAutotuneGaussianProcessNoise,
  kTimelineFilename, kTimelineMarkCycles,
  kStallCheck, kStallCheckWarningTime, kStallCheckShutdownTime,
  kMpiThreadsDisable, kNumNcclStreams, kThreadAffinity, kGlooTimeout,
  kLogLevel, kLogWithTimestamp,
  kGloo, kMpi, kJsrun, kMpiArgs, kBindingArgs,
  kJson, kImport, kControlFd, kControl, kRayBrokerFd, kLinger, kHostSource, kStop, kBind, kPort, kAllow,  // Not options of run.
  kClusterName, kMinWorkers, kMaxWorkers, kResolved,
  // Those of commands that take a cluster file.
  kClusterVerbose, kNoConfigCache, kPortForward, kRunEnv, kTmux, kScreen, kNewWindow,
  kNodeIp, kStart, kGang, kAllNodes, kDashboardPort, kRemotePort, kInterval, kLines, kFollow,
  kYes, kRestartOnly, kNoRestart, kForceSetup, kWorkersOnly, kKeepMinWorkers, kLoginShells, kPurge,
  kLease, kExpired,
  // Those of bench.
  kMinBytes, kMaxBytes, kStepFactor, kStepBytes, kCollectives, kDataTypes, kReduceOps, kRoots, kCollectiveBackends,
  kIterations, kWarmupIterations, kCheckResults, kJsonFile, kCsvFile, kTune, kPlot,
  kResume, kStudyName, kPlotDirectory,  // Those of tune.
  kCount,
};
// clang-format on

enum class OptionType : uint8_t {
  kAction,          ///< No value; parsing ends there (help, version, check-build).
  kFlag,            ///< No value; its negations mean false.
  kText,            ///< One word.
  kInt,             ///< A whole number in [min, max].
  kNumber,          ///< A decimal number.
  kIntPair,         ///< Two whole numbers, two words.
  kDuration,        ///< Seconds, or with a unit: 0.5, 200ms, 2m.
  kChoice,          ///< One of value_name's words, in the order of its enum.
  kOptionalChoice,  ///< As kChoice, but only after '='; alone it means the first one.
  kList,            ///< One word, repeatable.
};

/// The headings of options in help. The order in which they are shown is help.cc's.
enum class OptionGroup : uint8_t {
  kJob,
  kHosts,
  kElastic,
  kRay,
  kFailure,
  kOutput,
  kPlan,
  kNetwork,
  kTunables,
  kAutotune,
  kTimeline,
  kStallCheck,
  kLibrary,
  kLogging,
  kController,
  kGeneral,
  kDeveloper,  ///< For tests and measurements: only a variable, neither a flag nor a file's key.
};

/// At most one of each may be given on one level (flags, environment, one file).
enum class OptionExclusion : uint8_t { kNone, kHostSource, kTimestamp, kController };

struct RawOption;

/// The member of a JobSpec, or of its RaySpec, that an option sets.
template <typename T>
class SpecMember {
 public:
  using ReadFn = Result<T> (*)(const RawOption& raw);
  // Implicit, so that a row names just the member, which is read as its type says.
  constexpr SpecMember(Setting<T> JobSpec::*member) : of_job_(member) {}
  constexpr SpecMember(Setting<T> RaySpec::*member) : of_ray_(member) {}
  constexpr SpecMember(Setting<T> JobSpec::*member, ReadFn by)
      : of_job_(member), read_(by), has_read_(true) {}
  constexpr SpecMember(Setting<T> RaySpec::*member, ReadFn by)
      : of_ray_(member), read_(by), has_read_(true) {}

  const Setting<T>& In(const JobSpec& spec) const {
    return of_job_ != nullptr ? spec.*of_job_ : spec.ray.*of_ray_;
  }
  Setting<T>& In(JobSpec& spec) const {
    return of_job_ != nullptr ? spec.*of_job_ : spec.ray.*of_ray_;
  }
  /// nullptr: as its type says.
  constexpr ReadFn read() const { return read_; }
  /// GCC 12 with -fsanitize=undefined takes no comparison of a function for a constant.
  constexpr bool has_read() const { return has_read_; }

 private:
  Setting<T> JobSpec::*of_job_ = nullptr;
  Setting<T> RaySpec::*of_ray_ = nullptr;
  ReadFn read_ = nullptr;
  bool has_read_ = false;
};

template <typename... Types>
using SpecMemberOf = std::variant<std::monostate, SpecMember<Types>...>;

/// Any of them; std::monostate: the option sets none.
using OptionMember =
    SpecMemberOf<bool, int, uint16_t, double, std::string, Duration, std::optional<int>,
                 std::optional<double>, std::optional<std::pair<int, int>>,
                 std::vector<std::string>, std::vector<SyncWord>, std::vector<HostSlots>,
                 std::optional<PlanFormat>, HorovodChoice, ElasticMode, JoinMode, SuccessRule,
                 TagOutput, ColorMode, SshTransport, HostKeyCheck, RayStrategy, JobBackend,
                 GpuChoice>;

/// An option: how it is written, what it takes, what is said about it. Texts are static. What a row
/// need not say, since it follows from its spellings or its member, is in brackets.
struct OptionRow {
  OptionId id;
  /// Without dashes. HVDRAY_<NAME> and the job file key follow. [The first long spelling.]
  std::string_view name;
  /// Words as typed, separated by spaces. '~' before one: not in help; '+': ours although the row
  /// is Horovod's, so it takes no part in abbreviations.
  std::string_view spellings;
  std::string_view negations;           ///< The same for spellings that mean "false".
  OptionType type = OptionType::kText;  ///< [That of a member without a ReadFn.]
  OptionMember member;
  bool is_settled_later = false;  ///< Depends on other options, so spec_builder sets the member.
  std::string_view value_name;    ///< "SECONDS" [of kDuration]; of choices: "auto|always|never".
  int64_t min = 0;                ///< Of kInt and kIntPair; of kDuration: 1 means above 0.
  int64_t max = 0;
  std::string_view default_text;  ///< [The member's.] After ';': in addition to it.
  OptionGroup group;
  OptionExclusion exclusion = OptionExclusion::kNone;
  bool is_horovod = false;           ///< horovodrun has it too: same words, same meaning.
  std::string_view worker_variable;  ///< Tunables: what it becomes in a worker's environment.
  std::string_view config_key;       ///< Tunables: "section.key" in Horovod's --config-file.
  std::string_view help;
};

/// The rows of run, by OptionId.
std::span<const OptionRow> OptionTable();
/// Those of all commands.
std::span<const OptionRow> AllOptions();
/// A row of any command.
const OptionRow& RowOf(OptionId id);

/// An example in help and man page.
struct HelpExample {
  std::string_view text;     ///< What it does, for a comment line.
  std::string_view command;  ///< As one types it.
};

/// An option as one command describes it.
struct CommandOption {
  OptionId id;
  std::string_view help = {};          ///< Empty: that of the row.
  std::string_view default_text = {};  ///< The same; "off": help shows none.
};

/// The headings of commands in `hvdray --help`, in its order.
enum class CommandGroup : uint8_t { kJobs, kClusters, kRay, kTools };
inline constexpr std::array<std::string_view, 4> kCommandGroupTitles = {"Jobs", "Clusters", "Ray",
                                                                        "Tools"};

/// A command, and what help and man page say about it.
struct CommandRow {
  std::string_view name;
  std::string_view summary;
  CommandGroup group = CommandGroup::kClusters;
  std::string_view arguments = {};  ///< "[OPTION...] FILE". Empty: the command has no page.
  std::string_view missing = {};    ///< The error without any argument; empty: none is needed.
  size_t max_arguments = 0;
  /// Takes every option of run and then a command line, which ends the options.
  bool is_launch = false;
  std::string_view description = {};
  std::span<const HelpExample> examples = {};
  std::string_view notes = {};  ///< Follows the options.
  std::string_view exit_codes = {};
  std::span<const CommandOption> options = {};  ///< As shown; empty: all of run, by group.
};

/// In the order of `hvdray --help`, but for its groups.
std::span<const CommandRow> CommandTable();
/// `name` is one of CommandTable().
const CommandRow& CommandNamed(std::string_view name);
/// The options that the help of `command` shows, in its words.
std::vector<OptionRow> OptionsOf(const CommandRow& command);

/// One way to write an option.
struct Spelling {
  std::string_view text;  ///< With its dashes.
  const OptionRow* row = nullptr;
  bool is_negation = false;
  bool is_hidden = false;
  bool is_abbreviable = false;  ///< Of Horovod's frozen list.
  bool is_long() const { return text.starts_with("--"); }
};

/// All spellings of run, in the table's order. Built once.
const std::vector<Spelling>& AllSpellings();
std::vector<Spelling> Spellings(const OptionRow& row);
/// All spellings that `command` takes. Only those of run may be abbreviated.
std::vector<Spelling> Spellings(const CommandRow& command);

/// A name that stands for a row in files and in the environment.
struct OptionKey {
  std::string text;  ///< "num_proc"; the variable is HVDRAY_NUM_PROC.
  const OptionRow* row = nullptr;
  bool is_negation = false;
};

/// Every long spelling and row name, with '_' for '-', each once. Actions have none.
const std::vector<OptionKey>& AllKeys();
/// Those, and the developers' variables, which are keys of no file.
const std::vector<OptionKey>& AllVariables();

/// "num_proc" for "num-proc".
std::string OptionKeyOf(std::string_view name);
/// "HVDRAY_NUM_PROC" for "num_proc".
std::string VariableOfKey(std::string_view key);
/// For who writes a developers' option as a flag or as a file's key.
std::string HintForVariable(const OptionRow& row);

/// "auto|always|never" to its words.
std::vector<std::string_view> ChoicesOf(const OptionRow& row);

/// What help says of the value that holds if nobody gives one; empty: nothing.
std::string DefaultText(const OptionRow& row);

/// Heading of a group in help and docs.
std::string_view TitleOf(OptionGroup group);

/// Calls `visit(member)`, a SpecMember of some type, if the option sets one.
template <typename Visitor>
constexpr void VisitMember(const OptionRow& row, Visitor&& visit) {
  std::visit(
      [&visit](const auto& member) {
        if constexpr (!std::is_same_v<decltype(member), const std::monostate&>) visit(member);
      },
      row.member);
}

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_OPTION_TABLE_H_
