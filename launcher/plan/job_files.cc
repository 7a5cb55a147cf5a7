// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/job_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "agent/exec_plan.h"
#include "base/command_words.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/user_home.h"
#include "launcher/job/ray_runtime_env.h"
#include "launcher/plan/host_access.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

/// Of Horovod, written by workers.
constexpr std::array<const char*, 2> kFilesOfWorkers = {"HOROVOD_TIMELINE", "HOROVOD_AUTOTUNE_LOG"};

std::string In(const std::string& directory, const std::string& path) {
  return (fs::path(directory) / path).string();
}

std::string WorkersDirectory(const JobSpec& spec) {
  std::error_code error;
  return spec.working_directory->empty() ? fs::current_path(error).string()
                                         : *spec.working_directory;
}

/// The files of earlier workers, which the new ones' replace.
void AddFilesOfRanks(const Setting<std::string>& directory, std::vector<NamedFile>* outputs) {
  std::error_code error;
  for (fs::directory_iterator entry(*directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("rank.") || !IsAllDigits(std::string_view(name).substr(5))) continue;
    for (const char* stream : {"stdout", "stderr"}) {
      outputs->push_back(LookAtFile(directory.origin(), (entry->path() / stream).string()));
    }
  }
}

std::vector<NamedFile> ReportsOf(const JobSpec& spec) {
  std::vector<NamedFile> reports;
  for (const Setting<std::string>* file : {&spec.report_file, &spec.events_file, &spec.junit_file,
                                           &spec.trace_file, &spec.record_file}) {
    if (!(*file)->empty()) reports.push_back(LookAtFile(file->origin(), **file));
  }
  return reports;
}

std::vector<NamedFile> OtherOutputs(const JobSpec& spec) {
  std::vector<NamedFile> outputs;
  for (const char* name : kFilesOfWorkers) {
    const auto set = spec.tunables.find(name);
    if (set == spec.tunables.end() || set->second->empty()) continue;
    outputs.push_back(LookAtFile(set->second.origin(), In(WorkersDirectory(spec), *set->second)));
  }
  if (!spec.output_filename->empty()) AddFilesOfRanks(spec.output_filename, &outputs);
  return outputs;
}

void AddSettings(const JobSpec& spec, MoreInputs* inputs) {
  for (const Setting<std::string>* file :
       {&spec.job_file, &spec.hostfile, &spec.cluster_file, &spec.config_file,
        &spec.ssh_config_file, &spec.agent_path, &spec.ray.verify}) {
    if (!(*file)->empty()) inputs->Add(file->origin(), **file);
  }
  if (const std::string& key = *spec.ssh_identity_file; !key.empty()) {
    for (const char* suffix : {"", ".pub", "-cert.pub"}) {
      inputs->files.push_back(LookAtFile(spec.ssh_identity_file.origin(), key + suffix));
    }
  }
  if (const auto env = ParseRuntimeEnvText(*spec.ray.runtime_env); env.ok()) {
    for (const std::string& module : env->py_modules) inputs->Add("py_modules", module);
  }
}

/// The files that a configuration of SSH names, whatever host they are for.
void AddFilesOfSsh(const std::string& config, MoreInputs* inputs) {
  const Result<std::string> text = ReadFile(config);
  if (!text.ok()) return;
  for (const std::string_view line : LinesOf(*text)) {
    const std::vector<std::string_view> words = BlankSeparated(line, " \t=\"");
    if (words.empty() || !Lower(words.front()).ends_with("file")) continue;
    for (const std::string_view word : std::span(words).subspan(1)) {
      inputs->files.push_back(LookAtFile("ssh's configuration", ExpandedHome(std::string(word))));
    }
  }
}

/// What is read without being named.
void AddOwnFiles(const JobSpec& spec, const Environment& environment, MoreInputs* inputs) {
  inputs->files.push_back(LookAtFile("hvdray itself", OwnPath()));
  inputs->files.push_back(LookAtFile("hvdray itself", AgentPath(spec)));
  inputs->files.push_back(LookAtFile("the user file", UserFilePath(environment)));
  const std::string home = environment.GetOr("HOME", "");
  inputs->files.push_back(LookAtFile(
      "Ray's token", environment.GetOr("RAY_AUTH_TOKEN_PATH", home + "/.ray/auth_token")));
  AddFilesOfSsh(spec.ssh_config_file->empty() ? home + "/.ssh/config" : *spec.ssh_config_file,
                inputs);
  std::error_code error;
  for (fs::directory_iterator entry(home + "/.ssh", error), end; !error && entry != end;
       entry.increment(error)) {
    inputs->files.push_back(LookAtFile("~/.ssh", entry->path().string()));
  }
}

/// The files of `python -m MODULE`: its own, and what its parents begin with.
void AddModule(const std::vector<std::string>& command, const std::string& directory,
               MoreInputs* inputs) {
  const Result<PythonCall> call = ReadPythonCall(command);
  if (!call.ok() || call->program.size() < 2 || call->program.front() != "-m") return;
  std::string path = call->program[1];
  std::replace(path.begin(), path.end(), '.', '/');
  for (const char* suffix : {".py", "/__init__.py", "/__main__.py"}) {
    inputs->files.push_back(LookAtFile("the program", In(directory, path + suffix)));
  }
  for (size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string parent = path.substr(0, end) + "/__init__.py";
    inputs->files.push_back(LookAtFile("the program's package", In(directory, parent)));
  }
}

/// A program and the files that its words name, also behind a '='.
void AddCommand(const std::string& origin, const std::vector<std::string>& command,
                const std::string& directory, const Environment& environment, MoreInputs* inputs) {
  if (command.empty()) return;
  const std::string path = environment.GetOr("PATH", "/bin:/usr/bin");
  for (const std::string& program : PlanExec(command, path, directory).paths) {
    inputs->files.push_back(LookAtFile(origin, In(directory, program)));
  }
  const size_t script = PythonScript(command);
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    const std::string what = i == script ? origin : origin + "'s argument";
    inputs->files.push_back(LookAtFile(what, In(directory, word)));
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    inputs->files.push_back(LookAtFile(what, In(directory, word.substr(equals + 1))));
  }
}

std::vector<std::string> WordsOfShell(const std::string& command) {
  std::vector<std::string> words;
  for (const std::string_view word : BlankSeparated(command, " \t\n'\"")) words.emplace_back(word);
  return words;
}

/// Whether an earlier job has written this file, or nobody has.
bool IsEarlierReport(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 512> bytes{};
  const ssize_t size = ::read(file.get(), bytes.data(), bytes.size());
  if (size <= 0) return size == 0;
  const std::string_view begin(bytes.data(), static_cast<size_t>(size));
  const bool is_ours =
      begin.find("hvdray") != std::string_view::npos || begin.starts_with(R"({"time":)");
  return is_ours && std::string_view("{[<").find(begin.front()) != std::string_view::npos;
}

/// Whatever the job reads of the rest, it would be lost: words in a shell's line, modules that are
/// imported, files in directories that are copied.
Status CheckReplaced(const std::vector<NamedFile>& reports) {
  for (const NamedFile& report : reports) {
    if (!report.inode || report.real.empty() || IsEarlierReport(report.path)) continue;
    return {ErrorCode::kUsage,
            fmt::format("{} would overwrite '{}', which hvdray has not written", report.origin,
                        ShownText(report.path, 200)),
            "name a file that does not exist, or remove this one"};
  }
  return {};
}

/// Those with the better names first.
MoreInputs Inputs(const JobSpec& spec, const Environment& environment, const MoreInputs& more) {
  MoreInputs inputs;
  AddSettings(spec, &inputs);
  const std::string directory = WorkersDirectory(spec);
  AddCommand("the program", *spec.command, directory, environment, &inputs);
  AddModule(*spec.command, directory, &inputs);
  AddCommand("the discovery script", WordsOfShell(*spec.host_discovery_script), ".", environment,
             &inputs);
  AddCommand("--launch-agent", WordsOfShell(*spec.launch_agent), ".", environment, &inputs);
  inputs.files.insert(inputs.files.end(), more.files.begin(), more.files.end());
  for (const auto& [name, path] :
       {std::pair("standard input", "/dev/stdin"), std::pair("standard output", "/dev/stdout"),
        std::pair("standard error", "/dev/stderr")}) {
    inputs.Add(name, path);
  }
  AddOwnFiles(spec, environment, &inputs);
  return inputs;
}

}  // namespace

void MoreInputs::Add(const std::string& origin, const std::string& path) {
  files.push_back(LookAtFile(origin, path));
}

void NoteReads(ResolverFiles& files, MoreInputs& inputs) {
  files.read = [read = std::move(files.read), &inputs](const std::string& path) {
    inputs.Add("a file that the job names", path);
    return read(path);
  };
}

Status CheckDistinctFiles(const JobSpec& spec, const Environment& environment,
                          const MoreInputs& more) {
  const std::vector<NamedFile> reports = ReportsOf(spec);
  std::vector<NamedFile> outputs = OtherOutputs(spec);
  outputs.insert(outputs.begin(), reports.begin(), reports.end());
  if (outputs.empty()) return {};
  for (const NamedFile& report : reports) {
    if (report.path != "-") continue;
    return {ErrorCode::kUsage, report.origin + " takes a file, and '-' is none",
            "/dev/stdout is standard output, ./- a file of that name"};
  }
  HVDRAY_RETURN_IF_ERROR(CheckDistinct(outputs, Inputs(spec, environment, more).files));
  return CheckReplaced(reports);
}

Status CheckNotRead(const NamedFile& output, const JobSpec& spec, const Environment& environment,
                    const MoreInputs& more) {
  return CheckDistinct(std::span(&output, 1), Inputs(spec, environment, more).files);
}

}  // namespace hvdray
