// SPDX-License-Identifier: Apache-2.0
// Reads in this order: words, environment, user file, job file, cluster file, config file. Then
// BuildSpec() makes one spec of them all.
#include "launcher/job/options_resolver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/command_words.h"
#include "base/text.h"
#include "launcher/job/allocation.h"
#include "launcher/job/argv.h"
#include "launcher/job/horovod_options.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/spec_builder.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxModules = 32;

/// A file that an option names, so it must exist.
Result<YamlNode> LoadNamed(const ResolverFiles& files, const RawOption& raw) {
  const std::string path = raw.last();
  if (path.empty()) {
    return Status(ErrorCode::kUsage, fmt::format("{} must not be empty", raw.label));
  }
  Result<std::optional<std::string>> text = files.read(path);
  if (!text.ok()) return std::move(text).status().WithContext(raw.label);
  if (!text->has_value()) {
    return Status(ErrorCode::kFileUnreadable,
                  fmt::format("{}: no file {}", raw.label, Quoted(path)));
  }
  return ParseYaml(**text, path);
}

Result<OptionLayer> LoadUserLayer(const Environment& environment, const ResolverFiles& files) {
  const std::string path = UserFilePath(environment);
  if (path.empty()) return OptionLayer();
  const Result<std::optional<std::string>> text = files.read(path);
  if (!text.ok()) {
    return Status(
        text.status().code(), text.status().message(),
        "HOME or XDG_CONFIG_HOME may belong to another user: set XDG_CONFIG_HOME to a directory "
        "of your own");
  }
  if (!*text) return OptionLayer();
  HVDRAY_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(**text, path));
  return LayerOfFile(root, FileKind::kUser);
}

/// As in horovodrun, a start timeout of 0 counts as not given.
void DropZeroStartTimeout(OptionLayer* layer) {
  const auto found = layer->options.find(OptionId::kStartTimeout);
  if (found == layer->options.end()) return;
  const Result<Duration> timeout = ToDuration(OptionId::kStartTimeout, found->second);
  if (timeout.ok() && *timeout == Duration::zero()) layer->options.erase(found);
}

/// Without `home_of`, by HOME alone.
HomeOf HomesOf(const HomeOf& home_of, const Environment& environment) {
  if (home_of) return home_of;
  return [home = environment.GetOr("HOME", "")](const std::string& user) {
    return user.empty() ? home : std::string();
  };
}

void Push(OptionLayer layer, SpecInput* input) {
  DropZeroStartTimeout(&layer);
  input->job.PushLowest(layer);
  input->all.PushLowest(std::move(layer));
}

Result<ClusterHosts> LoadCluster(const ResolverFiles& files, const RawOption& raw) {
  const std::string path = raw.last();
  if (path.empty() || !files.load_cluster) {
    return Status(ErrorCode::kUsage, fmt::format("{} must name a cluster file", raw.label));
  }
  return files.load_cluster(path);
}

/// All levels but the config file.
Result<SpecInput> ReadLevels(const ParsedArgv& argv, const Environment& environment,
                             const ResolverFiles& files, std::vector<std::string>* warnings) {
  SpecInput input;
  const auto push = [&input, homes = HomesOf(files.home_of, environment)](OptionLayer layer) {
    ExpandHomes(homes, &layer);
    Push(std::move(layer), &input);
  };
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer flags, LayerOfFlags(argv));
  push(std::move(flags));
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer variables, LayerOfEnvironment(environment, warnings));
  push(std::move(variables));
  HVDRAY_ASSIGN_OR_RETURN(input.user, LoadUserLayer(environment, files));
  ExpandHomes(HomesOf(files.home_of, environment), &input.user);
  if (const RawOption* raw = input.all.Find(OptionId::kJobFile)) {
    HVDRAY_ASSIGN_OR_RETURN(const YamlNode root, LoadNamed(files, *raw));
    HVDRAY_ASSIGN_OR_RETURN(OptionLayer job, LayerOfFile(root, FileKind::kJob));
    push(std::move(job));
  }
  const RawOption* cluster = input.all.Find(OptionId::kCluster);
  const auto from_user = input.user.options.find(OptionId::kCluster);
  if (cluster == nullptr && from_user != input.user.options.end()) cluster = &from_user->second;
  if (cluster != nullptr) {
    HVDRAY_ASSIGN_OR_RETURN(input.cluster, LoadCluster(files, *cluster));
    if (input.cluster->run) {
      HVDRAY_ASSIGN_OR_RETURN(OptionLayer run,
                              LayerOfFile(*input.cluster->run, FileKind::kClusterRun));
      push(std::move(run));
    }
  }
  DropZeroStartTimeout(&input.user);
  input.all.PushLowest(input.user);
  if (input.cluster && input.cluster->ask_provider &&
      input.all.Find(OptionId::kRayAddress) == nullptr) {
    input.cluster->ask_provider(&*input.cluster);
  }
  return input;
}

Result<HorovodConfig> LoadHorovodConfig(const SpecInput& input, const ResolverFiles& files,
                                        const Environment& environment,
                                        std::vector<std::string>* warnings) {
  const RawOption* raw = input.all.Find(OptionId::kConfigFile);
  if (raw == nullptr) return HorovodConfig();
  HVDRAY_ASSIGN_OR_RETURN(const YamlNode root, LoadNamed(files, *raw));
  HVDRAY_ASSIGN_OR_RETURN(HorovodConfig config, ReadHorovodConfig(root, warnings));
  for (auto& [id, tunable] : config.tunables) {
    auto* path = std::get_if<std::string>(&tunable.value);
    if (path == nullptr || !IsPathHere(RowOf(id))) continue;
    *path = AtHome(*path, HomesOf(files.home_of, environment));
  }
  if (config.controller == "mpi" && input.all.Find(OptionId::kGloo) == nullptr) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("{}: controller mpi is not supported: hvdray starts the workers, and "
                              "Horovod uses Gloo and NCCL",
                              config.controller_place),
                  "controller: gloo, or --gloo");
  }
  return config;
}

Status ResolveInto(RunRequest& request, const ParsedArgv& argv, const Environment& environment,
                   const ResolverFiles& files, bool is_check, CalledAs name) {
  if (!argv.options.empty() && argv.options.back().row->type == OptionType::kAction) {
    const OptionId action = argv.options.back().row->id;
    request.wants_help = action == OptionId::kHelp;
    request.wants_version = action == OptionId::kVersion;
    request.wants_check_build = action == OptionId::kCheckBuild;
    return {};
  }
  HVDRAY_ASSIGN_OR_RETURN(SpecInput input, ReadLevels(argv, environment, files, &request.warnings));
  HVDRAY_ASSIGN_OR_RETURN(input.config,
                          LoadHorovodConfig(input, files, environment, &request.warnings));
  input.is_check = is_check;
  input.name = name;
  HVDRAY_ASSIGN_OR_RETURN(request.spec, BuildSpec(input, environment, files, &request.warnings));
  return {};
}

Result<RunRequest> ResolveParsed(const ParsedArgv& argv, const Environment& environment,
                                 const ResolverFiles& files, bool is_check,
                                 CalledAs name = CalledAs::kHvdray) {
  RunRequest request;
  if (Status status = ResolveInto(request, argv, environment, files, is_check, name);
      !status.ok()) {
    if (files.warn) std::for_each(request.warnings.begin(), request.warnings.end(), files.warn);
    return status;
  }
  return request;
}

/// A check does not take what asks for something else.
Status RefusePlan(const JobSpec& spec) {
  if (*spec.ray.is_wanted) {
    return {ErrorCode::kNotSupported,
            fmt::format("{} does not apply to hvdray check", spec.ray.is_wanted.origin()),
            "hvdray slots --ray shows what a cluster has free"};
  }
  const auto refused = [](const std::string& origin) {
    return Status(ErrorCode::kUsage, fmt::format("{} does not apply to hvdray check", origin),
                  "use it with hvdray run");
  };
  if (*spec.is_dry_run) return refused(spec.is_dry_run.origin());
  if (spec.print_plan->has_value()) return refused(spec.print_plan.origin());
  if (spec.print_config->has_value()) return refused(spec.print_config.origin());
  return {};
}

/// `FOO=1 python train.py`, as a shell reads it: FOO=1 becomes a -x.
void TakeAssignments(ParsedArgv& argv) {
  const auto begin = argv.command.begin();
  const auto end = std::find_if_not(begin, argv.command.end(), &IsAssignment);
  for (auto word = begin; word != end; ++word) {
    argv.options.push_back({&RowOf(OptionId::kEnv), false, {*word}, "-x"});
  }
  argv.command.erase(begin, end);
}

/// Takes out the options of check that run does not have.
Status TakeOwnOptions(ParsedArgv& argv, CheckRequest& request) {
  for (const ParsedOption& option : argv.options) {
    if (option.row->id == OptionId::kJson) request.is_json = true;
    if (option.row->id != OptionId::kImport) continue;
    for (const std::string& list : option.values) {
      Status status = AddModules(list, kMaxModules, request.modules);
      if (!status.ok()) {
        return {ErrorCode::kUsage, fmt::format("flag --import: {}", status.message()),
                "--import torch,horovod.torch"};
      }
    }
  }
  std::erase_if(argv.options, [](const ParsedOption& option) {
    return option.row->id == OptionId::kJson || option.row->id == OptionId::kImport;
  });
  return {};
}

/// Takes out the options of serve that run does not have.
Status TakeControlOptions(ParsedArgv& argv, const HomeOf& home_of, ServeRequest& request) {
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer flags, LayerOfFlags(argv));
  ExpandHomes(home_of, &flags);
  const auto find = [&flags](OptionId id) {
    const auto found = flags.options.find(id);
    return found == flags.options.end() ? nullptr : &found->second;
  };
  if (const RawOption* path = find(OptionId::kControl)) request.control_path = path->last();
  if (const RawOption* number = find(OptionId::kControlFd)) {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t fd, WholeOf(OptionId::kControlFd, *number));
    request.control_fd = static_cast<int>(fd);
  }
  if (const RawOption* number = find(OptionId::kRayBrokerFd)) {
    HVDRAY_ASSIGN_OR_RETURN(const int64_t fd, WholeOf(OptionId::kRayBrokerFd, *number));
    request.broker_fd = static_cast<int>(fd);
  }
  if (const RawOption* linger = find(OptionId::kLinger)) {
    HVDRAY_ASSIGN_OR_RETURN(request.linger, ToDuration(OptionId::kLinger, *linger));
    if (request.control_path.empty()) {
      return {ErrorCode::kUsage, "--linger is for --control: other clients find no descriptor"};
    }
  }
  std::erase_if(argv.options, [](const ParsedOption& option) {
    const OptionId id = option.row->id;
    return id == OptionId::kControl || id == OptionId::kControlFd || id == OptionId::kLinger ||
           id == OptionId::kRayBrokerFd;
  });
  if (request.broker_fd >= 0)
    argv.options.push_back({.row = &RowOf(OptionId::kRay), .spelling = "--ray-broker-fd"});
  return {};
}

Status RefuseForServe(const ServeRequest& request) {
  const JobSpec& spec = request.run.spec;
  const bool has_broker = request.broker_fd >= 0;
  const auto refused = [](const std::string& origin) {
    return Status(ErrorCode::kUsage, fmt::format("{} does not apply to hvdray serve", origin));
  };
  if (has_broker && !spec.ray.address->empty()) {
    return {ErrorCode::kNotSupported,
            fmt::format("{} does not apply with --ray-broker-fd", spec.ray.address.origin()),
            "the broker has its cluster already"};
  }
  if (*spec.ray.is_wanted && !has_broker) {
    if (!request.control_path.empty()) {
      return {
          ErrorCode::kNotSupported,
          fmt::format("--control does not apply with {}: a job on Ray is one gang of one client",
                      spec.ray.is_wanted.origin()),
          "--control-fd N"};
    }
    if (*spec.are_hosts_told) return refused(spec.are_hosts_told.origin());
    if (*spec.ray.is_detached) return refused(spec.ray.is_detached.origin());
  }
  if (*spec.is_dry_run) return refused(spec.is_dry_run.origin());
  if (spec.print_plan->has_value()) return refused(spec.print_plan.origin());
  if (spec.stdin_rank->has_value()) return refused(spec.stdin_rank.origin());
  if (!spec.report_file->empty()) return refused(spec.report_file.origin());
  if (!spec.junit_file->empty()) return refused(spec.junit_file.origin());
  return {};
}

/// Whether `command` lists the option as one of its own.
bool IsListed(const CommandRow& command, OptionId id) {
  return std::ranges::any_of(command.options,
                             [id](const CommandOption& option) { return option.id == id; });
}

/// Puts home directories into the arguments that are paths here, by the words of the usage.
void ExpandArguments(const CommandRow& row, const HomeOf& home_of,
                     std::vector<std::string>* arguments) {
  std::vector<std::string_view> kinds = BlankSeparated(row.arguments, " []()");
  std::erase(kinds, "OPTION...");
  const std::string_view local = row.name == "rsync-down" ? "TARGET" : "SOURCE";
  for (size_t i = 0; i < std::min(kinds.size(), arguments->size()); ++i) {
    const bool is_path = kinds[i] == "FILE" || kinds[i] == "SCRIPT" || kinds[i] == local;
    if (is_path) (*arguments)[i] = AtHome((*arguments)[i], home_of);
  }
}

/// Appends an option in full, as words that ParseArgv() takes.
void AppendWords(const ParsedOption& option, std::vector<std::string>* words) {
  std::string word = option.spelling;
  // An optional value has to stand in the same word, and one that could be taken for an option.
  const bool is_one_word =
      option.values.size() == 1 && (option.row->type == OptionType::kOptionalChoice ||
                                    (option.values[0].size() > 1 && option.values[0][0] == '-'));
  if (is_one_word) word += "=" + option.values.front();
  words->push_back(std::move(word));
  if (!is_one_word) words->insert(words->end(), option.values.begin(), option.values.end());
}

/// Makes run's words of the options of `submit --gang`.
Status TakeGangOptions(const ParsedArgv& argv, SubmitRequest* submit) {
  submit->run_words = {"--cluster", argv.command.front(), "--backend", "ray"};
  for (const ParsedOption& option : argv.options) {
    const OptionId id = option.row->id;
    if (id == OptionId::kClusterVerbose) submit->run_words.emplace_back("--verbose");
    if (id == OptionId::kPortForward || id == OptionId::kTmux || id == OptionId::kScreen ||
        id == OptionId::kRunEnv || id == OptionId::kStart || id == OptionId::kStop) {
      return {ErrorCode::kUsage, fmt::format("{} is not allowed with --gang", option.spelling)};
    }
    if (id == OptionId::kCluster || id == OptionId::kBackend) {
      return {ErrorCode::kUsage,
              fmt::format("{} is not allowed here: the job runs on the Ray of {}", option.spelling,
                          argv.command.front())};
    }
    if (id >= OptionId::kJson) continue;
    submit->has_working_dir |= id == OptionId::kWorkingDir;
    AppendWords(option, &submit->run_words);
  }
  return {};
}

}  // namespace

std::string UserFilePath(const Environment& environment) {
  const std::string xdg = environment.GetOr("XDG_CONFIG_HOME", "");
  // The XDG specification says to ignore a relative path.
  if (xdg.starts_with('/')) return xdg + "/hvdray/config.yaml";
  const std::string home = environment.GetOr("HOME", "");
  return home.empty() ? std::string() : home + "/.config/hvdray/config.yaml";
}

RawOption CommandRequest::Get(OptionId id) const {
  if (const RawOption* given = said.Find(id)) return *given;
  OptionRow row = RowOf(id);
  for (const CommandOption& option : command->options) {
    if (option.id == id && !option.default_text.empty()) row.default_text = option.default_text;
  }
  return {{DefaultText(row)}, "default", "default"};
}

Result<RunRequest> ResolveRun(std::span<const std::string> args, const Environment& environment,
                              const ResolverFiles& files, CalledAs name) {
  HVDRAY_ASSIGN_OR_RETURN(ParsedArgv argv, ParseArgv(args));
  if (name == CalledAs::kHorovodrun) TakeAssignments(argv);
  const bool only_shows = std::ranges::any_of(argv.options, [](const ParsedOption& option) {
    return option.row->type == OptionType::kAction || option.row->id == OptionId::kPrintConfig;
  });
  if (!only_shows) HVDRAY_RETURN_IF_ERROR(CheckSingleStart(environment, files.read));
  return ResolveParsed(argv, environment, files, /*is_check=*/false, name);
}

Result<CheckRequest> ResolveCheck(std::span<const std::string> args, const Environment& environment,
                                  const ResolverFiles& files) {
  HVDRAY_ASSIGN_OR_RETURN(ParsedArgv argv, ParseArgv(args, "check"));
  CheckRequest request;
  HVDRAY_RETURN_IF_ERROR(TakeOwnOptions(argv, request));
  HVDRAY_ASSIGN_OR_RETURN(request.run, ResolveParsed(argv, environment, files, /*is_check=*/true));
  const JobSpec& spec = request.run.spec;
  // On named hosts it does no harm.
  if (!AllocationNotice(spec).empty()) {
    HVDRAY_RETURN_IF_ERROR(CheckSingleStart(environment, files.read));
  }
  HVDRAY_RETURN_IF_ERROR(RefusePlan(spec));
  request.slots = CheckSlots(spec);
  return request;
}

Result<ServeRequest> ResolveServe(std::span<const std::string> args, const Environment& environment,
                                  const ResolverFiles& files) {
  HVDRAY_ASSIGN_OR_RETURN(ParsedArgv argv, ParseArgv(args, "serve"));
  ServeRequest request;
  HVDRAY_RETURN_IF_ERROR(TakeControlOptions(argv, HomesOf(files.home_of, environment), request));
  HVDRAY_ASSIGN_OR_RETURN(request.run, ResolveParsed(argv, environment, files, /*is_check=*/false));
  const RunRequest& run = request.run;
  if (run.wants_help || run.wants_version || run.wants_check_build) return request;
  // The Python package names this machine: each task may well have workers of its own.
  if (!AllocationNotice(run.spec).empty()) {
    HVDRAY_RETURN_IF_ERROR(CheckSingleStart(environment, files.read));
  }
  HVDRAY_RETURN_IF_ERROR(RefuseForServe(request));
  if ((request.control_fd >= 0) == !request.control_path.empty()) {
    return Status(ErrorCode::kUsage, "one of --control-fd N and --control PATH is needed",
                  "hvdray serve -np 4 --control PATH -- WORKER");
  }
  request.run.spec.has_channel.Set(true, "hvdray serve");
  return request;
}

namespace {

/// Hint to whoever gives a cluster's file to a command that takes it as --cluster. Empty: other
/// words.
std::string HintForFile(const CommandRow& row, const std::string& word) {
  const bool is_taken =
      std::ranges::any_of(row.options, [](const auto& o) { return o.id == OptionId::kCluster; });
  if (!is_taken || (!word.ends_with(".yaml") && !word.ends_with(".yml"))) return {};
  return fmt::format("a cluster file stands behind --cluster: hvdray {} --cluster {}{}", row.name,
                     ShownText(word), row.max_arguments == 0 ? "" : " ID");
}

}  // namespace

Result<CommandRequest> ResolveRequest(std::string_view command, std::span<const std::string> args,
                                      const Environment& environment, const HomeOf& home_of) {
  const CommandRow& row = CommandNamed(command);
  HVDRAY_ASSIGN_OR_RETURN(ParsedArgv argv, ParseArgv(args, command));
  CommandRequest request{.command = &row};
  if (!argv.options.empty() && argv.options.back().row->type == OptionType::kAction) {
    request.wants_help = argv.options.back().row->id == OptionId::kHelp;
    request.wants_version = !request.wants_help;
    return request;
  }
  request.arguments = std::move(argv.command);
  const std::string usage = fmt::format("hvdray {} {}", command, row.arguments);
  if (request.arguments.empty() && !row.missing.empty()) {
    return Status(ErrorCode::kUsage, std::string(row.missing), usage);
  }
  std::span<const std::string> unexpected(request.arguments);
  // The ID of a job may be any text, but is none that looks like this.
  const bool is_file = command == "follow" && !HintForFile(row, unexpected.front()).empty();
  if (!is_file) unexpected = unexpected.subspan(std::min(row.max_arguments, unexpected.size()));
  if (!unexpected.empty()) {
    const std::string hint = HintForFile(row, unexpected.front());
    return Status(ErrorCode::kUsage, fmt::format("unexpected word {}", Quoted(unexpected.front())),
                  hint.empty() ? usage : hint);
  }
  argv.command.clear();
  const HomeOf homes = HomesOf(home_of, environment);
  ExpandArguments(row, homes, &request.arguments);
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer flags, LayerOfFlags(argv));
  ExpandHomes(homes, &flags);
  request.said.PushLowest(std::move(flags));
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer variables, LayerOfVariables(environment, row));
  ExpandHomes(homes, &variables);
  request.said.PushLowest(std::move(variables));
  request.spec.np.Set(1, "default");
  HVDRAY_RETURN_IF_ERROR(ReadCommandSettings(request.said, &request.spec));
  return request;
}

Result<SubmitRequest> ResolveSubmit(std::span<const std::string> args, const HomeOf& home_of) {
  const CommandRow& row = CommandNamed("submit");
  const std::string usage = fmt::format("hvdray submit {}", row.arguments);
  HVDRAY_ASSIGN_OR_RETURN(ParsedArgv argv, ParseArgv(args, "submit"));
  SubmitRequest submit;
  const auto wants_help = [&submit](const ParsedArgv& parsed) {
    submit.request.wants_help =
        !parsed.options.empty() && parsed.options.back().row->type == OptionType::kAction;
    return submit.request.wants_help;
  };
  if (wants_help(argv)) return submit;
  if (argv.command.empty()) {
    return Status(ErrorCode::kUsage, std::string(row.missing), usage);
  }
  const std::string file = argv.command.front();
  HVDRAY_ASSIGN_OR_RETURN(ParsedArgv rest, ParseArgv(std::span(argv.command).subspan(1), "submit"));
  if (wants_help(rest)) return submit;
  if (rest.command.empty()) return Status(ErrorCode::kUsage, "no script given", usage);
  if (rest.command.size() > 1 && rest.command[1] == "--") {
    rest.command.erase(rest.command.begin() + 1);
  }
  rest.command.insert(rest.command.begin(), file);
  if (home_of) ExpandArguments(row, home_of, &rest.command);
  rest.options.insert(rest.options.begin(), argv.options.begin(), argv.options.end());
  submit.is_gang = std::ranges::any_of(
      rest.options, [](const ParsedOption& option) { return option.row->id == OptionId::kGang; });
  submit.request.command = &row;
  submit.request.arguments = rest.command;
  if (submit.is_gang) {
    HVDRAY_RETURN_IF_ERROR(TakeGangOptions(rest, &submit));
    return submit;
  }
  for (const ParsedOption& option : rest.options) {
    if (IsListed(row, option.row->id)) continue;
    return Status(ErrorCode::kUsage, fmt::format("{} needs --gang", option.spelling), usage);
  }
  rest.command.clear();
  HVDRAY_ASSIGN_OR_RETURN(OptionLayer flags, LayerOfFlags(rest));
  if (home_of) ExpandHomes(home_of, &flags);
  submit.request.said.PushLowest(std::move(flags));
  submit.request.spec.np.Set(1, "default");
  HVDRAY_RETURN_IF_ERROR(ReadCommandSettings(submit.request.said, &submit.request.spec));
  return submit;
}

Result<BenchRequest> ResolveBench(std::span<const std::string> args, const HomeOf& home_of) {
  ParsedArgv argv;
  for (;;) {
    HVDRAY_ASSIGN_OR_RETURN(ParsedArgv part, ParseArgv(args, "bench"));
    argv.options.insert(argv.options.end(), part.options.begin(), part.options.end());
    if (part.command.empty()) break;
    // `--plot FILE.svg`, with its value in a word of its own: parsing goes on behind it.
    const std::string& word = part.command.front();
    if (argv.options.empty() || argv.options.back().row->id != OptionId::kPlot ||
        !argv.options.back().values.empty() || !word.ends_with(".svg")) {
      return Status(ErrorCode::kUsage, fmt::format("unexpected word {}", Quoted(word)),
                    "hvdray bench --help");
    }
    argv.options.back().values.push_back(word);
    args = args.last(part.command.size() - 1);
  }
  BenchRequest request;
  ParsedArgv own;
  for (const ParsedOption& option : argv.options) {
    if (option.row->type == OptionType::kAction) {
      request.wants_help = option.row->id == OptionId::kHelp;
      request.wants_version = !request.wants_help;
      return request;
    }
    const bool is_own = option.row->id > OptionId::kJson;
    AppendWords(option, is_own ? &request.bench_words : &request.run_words);
    if (is_own) own.options.push_back(option);
  }
  HVDRAY_ASSIGN_OR_RETURN(request.said, LayerOfFlags(own));
  if (home_of) ExpandHomes(home_of, &request.said);
  return request;
}

}  // namespace hvdray
