// SPDX-License-Identifier: Apache-2.0
#include "agent/host_inspection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "agent/cgroup.h"
#include "agent/exec_plan.h"
#include "agent/inspector.h"
#include "agent/start_directory.h"
#include "base/command_words.h"
#include "base/environ.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr Duration kVersionLimit = std::chrono::seconds(2);
constexpr Duration kImportLimit = std::chrono::seconds(30);  // A cold shared file system is slow.
// A library may print, and may crash at exit: only the marked line counts.
constexpr std::string_view kImported = "hvdray-imported:";
constexpr std::string_view kImportProgram =
    "import importlib, sys\n"
    "module = importlib.import_module(sys.argv[1])\n"
    "version = str(getattr(module, '__version__', '')).split('\\n')[0]\n"
    "print('\\nhvdray-imported:' + version, flush=True)\n";
constexpr Duration kPackagesLimit = std::chrono::seconds(5);
// Asks what is installed, and imports none of it.
constexpr std::string_view kPackageMark = "hvdray-package:";
constexpr std::string_view kPackageProgram =
    "import sys\n"
    "def say(name, version):\n"
    "    print('\\nhvdray-package:' + name + ' ' + version.split()[0], flush=True)\n"
    "say('Python', sys.version)\n"
    "from importlib import metadata\n"
    "for package in sys.argv[1:]:\n"
    "    try:\n"
    "        name = 'NCCL' if package.startswith('nvidia-nccl') else package\n"
    "        say(name, metadata.version(package))\n"
    "    except Exception:\n"
    "        pass\n";
constexpr std::array<std::string_view, 5> kAskedPackages = {"torch", "horovod", "nvidia-nccl-cu13",
                                                            "nvidia-nccl-cu12", "nvidia-nccl-cu11"};
constexpr std::array<std::string_view, 13> kVariablePrefixes = {
    "NCCL_",    "GLOO_", "HOROVOD_", "OMP_", "CUDA_", "NVIDIA_", "TORCH_",
    "PYTORCH_", "UCX_",  "FI_",      "MKL_", "KMP_",  "TF_"};
constexpr std::array<std::string_view, 6> kVariableNames = {
    "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"};
constexpr std::array<std::string_view, 4> kSecretWords = {"SECRET", "TOKEN", "PASSWORD", "KEY"};
constexpr size_t kMaxVariableBytes = 1024;
constexpr uint64_t kNoLimitV1 = uint64_t{1} << 60;  // cgroup v1 shows "no limit" as a huge number.

std::string ToText(const std::string& path, size_t limit = size_t{1} << 20) {
  return ReadFile(path, limit).value_or("");
}

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, std::min(text.find('\n'), size_t{200})));
}

uint64_t NumberOf(std::string_view text) {
  uint64_t number = 0;
  for (const char c : Trimmed(text)) {
    if (c < '0' || c > '9') break;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsExecutableFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

std::string Below(const std::string& directory, const std::string& path) {
  return directory.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

/// Searches `path`, as a shell does.
std::optional<std::string> FindProgram(const std::string& name, std::string_view path) {
  const ExecPlan plan = PlanExec({name}, path, "");
  const auto program = std::find_if(plan.paths.begin(), plan.paths.end(), &IsExecutableFile);
  if (program == plan.paths.end()) return std::nullopt;
  return *program;
}

std::string HostLibc(const std::string& machine) {
  for (const std::string& path :
       {std::string("/lib64/libc.so.6"), fmt::format("/lib/{}-linux-gnu/libc.so.6", machine),
        std::string("/usr/lib64/libc.so.6"),
        fmt::format("/usr/lib/{}-linux-gnu/libc.so.6", machine), std::string("/lib/libc.so.6")}) {
    std::string libc = LibcOfBanner(ToText(path, size_t{64} << 20));
    if (!libc.empty()) return libc;
  }
  // musl's loader prints its version on stderr and exits with code 1.
  const std::string musl = fmt::format("/lib/ld-musl-{}.so.1", machine);
  if (!IsExecutableFile(musl)) return {};
  const Result<ProgramAnswer> answer = AskProgram({musl}, kVersionLimit);
  if (!answer.ok()) return "musl";
  constexpr std::string_view kVersion = "Version ";
  const size_t at = answer->text.find(kVersion);
  if (at == std::string::npos) return "musl";
  return "musl " + FirstLine(std::string_view(answer->text).substr(at + kVersion.size()));
}

/// In bytes; 0: no limit.
uint64_t MemoryLimitOfCgroup() {
  uint64_t least = 0;
  const auto take = [&least](uint64_t bytes) {
    if (bytes > 0 && bytes < kNoLimitV1) least = least == 0 ? bytes : std::min(least, bytes);
  };
  if (const std::optional<std::string> own = OwnCgroupDirectory()) {
    // The limits of parent groups apply as well.
    const auto is_group = [](const fs::path& directory) {
      return ::access((directory / "cgroup.procs").c_str(), F_OK) == 0;
    };
    for (fs::path directory = *own; is_group(directory); directory = directory.parent_path()) {
      take(NumberOf(ToText((directory / "memory.max").string())));  // "max" reads as 0.
    }
  }
  const auto v1 =
      FindV1Directory("memory", ToText("/proc/self/mountinfo"), ToText("/proc/self/cgroup"));
  if (v1) take(NumberOf(ToText(*v1 + "/memory.limit_in_bytes")));
  return least;
}

/// Returns errno; 0: a directory that this user may enter.
int DirectoryError(const std::string& path) {
  struct stat info {};
  if (path.empty()) return ENOENT;
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

wire::DirectoryFacts LookAtDirectory(std::string use, const std::string& path) {
  wire::DirectoryFacts facts;
  facts.use = std::move(use);
  facts.path = path;
  facts.error = DirectoryError(path);
  struct statvfs disk {};
  if (facts.error != 0) return facts;
  facts.is_writable = ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
  if (::statvfs(path.c_str(), &disk) != 0) return facts;
  facts.is_noexec = (disk.f_flag & ST_NOEXEC) != 0;
  facts.total_bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
  facts.free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  return facts;
}

std::string AgentDirectory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::vector<wire::LimitFacts> Limits() {
  constexpr std::array<std::pair<const char*, int>, 6> kLimits = {{{"nofile", RLIMIT_NOFILE},
                                                                   {"nproc", RLIMIT_NPROC},
                                                                   {"memlock", RLIMIT_MEMLOCK},
                                                                   {"core", RLIMIT_CORE},
                                                                   {"stack", RLIMIT_STACK},
                                                                   {"as", RLIMIT_AS}}};
  std::vector<wire::LimitFacts> limits;
  for (const auto& [name, resource] : kLimits) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) continue;
    // RLIM_INFINITY is UINT64_MAX.
    limits.push_back({name, limit.rlim_cur, limit.rlim_max});
  }
  return limits;
}

/// Takes the steps one by one and reports the known facts before each.
class Gatherer {
 public:
  Gatherer(const wire::Inspect& inspect, const std::function<void(const wire::Inspection&)>& report)
      : inspect_(inspect), report_(report) {}

  void Gather() {
    // Steps that may hang come last.
    Add("system", [this] { AskSystem(); });
    Add("libc", [this] { facts_.libc = HostLibc(machine_); });
    Add("GPU driver", [this] { AskGpuDriver(); });
    AddDirectory("agent", AgentDirectory());
    AddDirectory("tmp", "/tmp");
    AddDirectory("shm", "/dev/shm");
    AddDirectory("home", Environment::FromProcess().GetOr("HOME", ""));
    std::error_code gone;
    const bool is_trusted =
        DistrustOfDirectory(inspect_.working_directory, inspect_.directory_trust).empty();
    if (is_trusted) {
      AddDirectory("working", inspect_.working_directory.empty() ? fs::current_path(gone).string()
                                                                 : inspect_.working_directory);
    } else {
      facts_.directories.push_back({"working", inspect_.working_directory, EPERM});
      // Nothing of another user's is run.
      inspect_.working_directory.clear();
      inspect_.command.clear();
      inspect_.files.clear();
      inspect_.modules.clear();
    }
    if (!inspect_.command.empty()) Add("command", [this] { AskCommand(); });
    if (!inspect_.files.empty()) Add("files of the command", [this] { LookForFiles(); });
    Add("host name", [this] { AskName(); });
    if (HasNvidiaDriver()) Add("nvidia-smi", [this] { AskSmi(); });
    Add("variables", [this] { AskVariables(); });
    Add("packages", [this] { AskPackages(); });
    for (const std::string& module : inspect_.modules) {
      Add("import " + module, [this, module] { facts_.modules.push_back(Import(module)); });
    }
    for (const auto& [name, act] : steps_) facts_.unanswered.push_back(name);
    for (const auto& [name, act] : steps_) {
      report_(facts_);
      act();
      facts_.unanswered.erase(facts_.unanswered.begin());
    }
    report_(facts_);
  }

 private:
  void Add(std::string name, std::function<void()> act) {
    steps_.emplace_back(std::move(name), std::move(act));
  }
  void AddDirectory(std::string use, std::string path) {
    std::string name = fmt::format("free disk of {}", path);
    Add(std::move(name), [this, use = std::move(use), path = std::move(path)] {
      facts_.directories.push_back(LookAtDirectory(use, path));
    });
  }

  void AskSystem() {
    utsname names{};
    if (::uname(&names) == 0) {
      facts_.kernel = names.release;
      machine_ = names.machine;
    }
    facts_.distribution = Distribution(ToText("/etc/os-release"));
    const std::string memory = ToText("/proc/meminfo");
    facts_.memory_bytes = MemoryRow(memory, "MemTotal");
    facts_.available_bytes = MemoryRow(memory, "MemAvailable");
    facts_.memory_limit_bytes = MemoryLimitOfCgroup();
    facts_.limits = Limits();
    facts_.infiniband_count = static_cast<uint32_t>(NamesIn("/sys/class/infiniband").size());
  }

  static bool HasNvidiaDriver() {
    return ::access("/proc/driver/nvidia/version", F_OK) == 0 ||
           ::access("/dev/nvidia0", F_OK) == 0;
  }

  void AskGpuDriver() {
    facts_.gpu_driver = NvidiaDriver(ToText("/proc/driver/nvidia/version"));
    for (const std::string& name : NamesIn("/dev")) {
      constexpr std::string_view kDevice = "nvidia";
      const std::string_view number =
          std::string_view(name).substr(name.starts_with(kDevice) ? kDevice.size() : name.size());
      const bool is_device = number.find_first_not_of("0123456789") == std::string_view::npos;
      if (!number.empty() && is_device) ++facts_.gpu_device_count;
    }
    const std::string directory = "/proc/driver/nvidia/gpus";
    for (const std::string& name : NamesIn(directory)) {
      if (facts_.gpus.size() >= wire::kMaxInspected) break;
      constexpr std::string_view kModel = "Model:";
      const std::string text = ToText(fmt::format("{}/{}/information", directory, name));
      for (const std::string_view line : LinesOf(text)) {
        if (!line.starts_with(kModel)) continue;
        facts_.gpus.push_back({std::string(Trimmed(line.substr(kModel.size()))), 0});
      }
    }
  }

  // nvidia-smi lists the GPUs of this process; in a container, the driver may have more.
  void AskSmi() {
    const auto program = FindProgram("nvidia-smi", inspect_.path + ":/usr/bin:/usr/local/bin");
    if (!program) return;
    AskGpus(*program, milliseconds(inspect_.timeout_ms), facts_);
  }

  void AskCommand() {
    const FoundCommand found = FindCommand(inspect_);
    facts_.command_path = found.path;
    facts_.command_error = found.error;
    facts_.command_interpreter = found.interpreter;
    if (found.error != 0 || !IsPython(found.path)) return;
    const Result<ProgramAnswer> answer = AskProgram({found.path, "--version"}, kVersionLimit);
    if (answer.ok() && answer->text.starts_with("Python ")) {
      facts_.command_version = FirstLine(answer->text);
    }
  }

  /// The workers' directory; empty: this process's.
  std::string Directory() const {
    return IsDirectory(inspect_.working_directory) ? inspect_.working_directory : std::string();
  }

  void LookForFiles() {
    for (const std::string& path : inspect_.files) {
      const std::string file = Below(Directory(), path);
      if (::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0) continue;
      facts_.missing_files.push_back({path, errno});
    }
  }

  // By a program, as the static agent has no name service.
  void AskName() {
    utsname names{};
    const std::optional<std::string> getent = FindProgram("getent", "/usr/bin:/bin");
    if (!getent || ::uname(&names) != 0) return;
    const Result<ProgramAnswer> answer =
        AskProgram({*getent, "ahosts", names.nodename}, kVersionLimit);
    if (answer.ok() && answer->exit_code == 0) facts_.name_addresses = AddressesOf(answer->text);
  }

  void AskVariables() {
    const Environment environment = Environment::FromProcess();
    facts_.variables = RelevantVariables(environment.values());
    for (const std::string& path :
         {std::string("/etc/nccl.conf"), environment.GetOr("HOME", "") + "/.nccl.conf"}) {
      for (wire::VariableFacts& variable : VariablesOfNcclConf(ToText(path))) {
        if (facts_.variables.size() >= wire::kMaxInspected) return;
        facts_.variables.push_back(std::move(variable));
      }
    }
  }

  void AskPackages() {
    const std::string python = PythonOfWorkers();
    if (!python.empty()) {
      std::vector<std::string> argv = {python, "-c", std::string(kPackageProgram)};
      argv.insert(argv.end(), kAskedPackages.begin(), kAskedPackages.end());
      // Not in the workers' directory, whose files would be modules to it.
      const Result<ProgramAnswer> answer =
          AskProgram(argv, kPackagesLimit, {"/", inspect_.environment});
      if (answer.ok()) facts_.packages = Packages(answer->text);
    }
    const bool has_nccl =
        std::any_of(facts_.packages.begin(), facts_.packages.end(),
                    [](const wire::PackageFacts& package) { return package.name == "NCCL"; });
    const std::string nccl = has_nccl ? "" : NcclOfSystem();
    if (!nccl.empty()) facts_.packages.push_back({"NCCL", nccl});
  }

  /// Of the library that the dynamic linker would find; empty: none.
  std::string NcclOfSystem() const {
    for (const std::string& directory :
         {fmt::format("/usr/lib/{}-linux-gnu", machine_), std::string("/usr/local/lib"),
          std::string("/usr/lib64"), std::string("/usr/local/cuda/lib64")}) {
      std::error_code error;
      const fs::path file = fs::canonical(directory + "/libnccl.so.2", error);
      if (!error) return NcclOfFile(file.filename().string());
    }
    return {};
  }

  wire::ModuleFacts Import(const std::string& module) const {
    const std::string python = PythonOfWorkers();
    if (python.empty()) return {module, "", "no python3 in the workers' PATH"};
    const Result<ProgramAnswer> answer =
        AskProgram({python, "-c", std::string(kImportProgram), module}, kImportLimit,
                   {Directory(), inspect_.environment});
    if (!answer.ok()) return {module, "", answer.status().message()};
    return ToModuleFacts(module, *answer);
  }

  /// The command if it is a Python, else python3 or python from the workers' PATH.
  std::string PythonOfWorkers() const {
    if (facts_.command_error == 0 && IsPython(facts_.command_path)) return facts_.command_path;
    for (const char* name : {"python3", "python"}) {
      wire::Inspect inspect = inspect_;
      inspect.command = name;
      const FoundCommand found = FindCommand(inspect);
      if (found.error == 0) return found.path;
    }
    return {};
  }

  wire::Inspect inspect_;
  const std::function<void(const wire::Inspection&)>& report_;
  std::vector<std::pair<std::string, std::function<void()>>> steps_;
  std::string machine_;
  wire::Inspection facts_;
};

/// The interpreter that a script or a program names, if that file is missing; else empty.
std::string MissingInterpreter(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kInterpreterBytes> buffer{};
  if (!fd.is_valid()) return {};  // Executable, but not readable.
  const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
  std::string interpreter =
      Interpreter(std::string_view(buffer.data(), n > 0 ? static_cast<size_t>(n) : 0));
  const bool is_missing = interpreter.starts_with('/') && ::access(interpreter.c_str(), F_OK) != 0;
  return is_missing ? interpreter : std::string();
}

}  // namespace

void GatherInspection(const wire::Inspect& inspect,
                      const std::function<void(const wire::Inspection&)>& report) {
  Gatherer(inspect, report).Gather();
}

FoundCommand FindCommand(const wire::Inspect& inspect) {
  // A missing directory is a finding of its own; workers may start elsewhere then.
  const std::string directory =
      IsDirectory(inspect.working_directory) ? inspect.working_directory : "";
  std::optional<std::string_view> path;
  if (!inspect.path.empty()) path = inspect.path;
  const ExecPlan plan = PlanExec({inspect.command}, path, directory);
  for (const std::string& candidate : plan.paths) {
    const std::string file = Below(directory, candidate);
    if (!IsExecutableFile(file)) continue;
    std::string missing = MissingInterpreter(file);
    return {file, missing.empty() ? 0 : ELIBACC, std::move(missing)};
  }
  if (plan.paths.empty()) return {"", plan.error, ""};
  return {Below(directory, plan.paths.front()), EACCES, ""};
}

std::string LibcOfBanner(std::string_view bytes) {
  constexpr std::string_view kName = "GNU C Library";
  constexpr std::string_view kVersion = "release version ";
  constexpr size_t kBannerBytes = 256;
  for (size_t at = bytes.find(kName); at != std::string_view::npos;
       at = bytes.find(kName, at + kName.size())) {
    const std::string_view banner = bytes.substr(at, kBannerBytes);
    const size_t version = banner.find(kVersion);
    if (version == std::string_view::npos) continue;
    const std::string_view rest = banner.substr(version + kVersion.size());
    const std::string_view number =
        rest.substr(0, std::min(rest.find_first_not_of("0123456789."), rest.size()));
    const size_t end = number.find_last_not_of('.');
    if (end != std::string_view::npos) return fmt::format("glibc {}", number.substr(0, end + 1));
  }
  return {};
}

std::string Distribution(std::string_view os_release) {
  constexpr std::string_view kKey = "PRETTY_NAME=";
  std::string name;
  for (std::string_view line : LinesOf(os_release)) {
    if (!line.starts_with(kKey)) continue;
    line = Trimmed(line.substr(kKey.size()));
    if (line.size() >= 2 && (line.front() == '"' || line.front() == '\'')) {
      line = line.substr(1, line.size() - 2);
    }
    name = line;
  }
  return name;
}

uint64_t MemoryRow(std::string_view meminfo, std::string_view name) {
  uint64_t bytes = 0;
  for (const std::string_view line : LinesOf(meminfo)) {
    const bool is_row =
        line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':';
    if (is_row) bytes = NumberOf(line.substr(name.size() + 1)) << 10;
  }
  return bytes;
}

std::string NvidiaDriver(std::string_view version) {
  std::string_view line = version.substr(0, version.find('\n'));
  while (!line.empty()) {
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view word = line.substr(0, end);
    const bool is_number = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (is_number && word.find('.') != std::string_view::npos) return std::string(word);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return {};
}

std::vector<std::string> AddressesOf(std::string_view rows) {
  std::vector<std::string> addresses;
  for (const std::string_view row : LinesOf(rows)) {
    const std::string address(row.substr(0, std::min(row.find_first_of(" \t"), row.size())));
    const bool is_new = std::find(addresses.begin(), addresses.end(), address) == addresses.end();
    const bool is_address =
        !address.empty() &&
        address.find_first_not_of("0123456789abcdefABCDEF.:") == std::string::npos;
    if (is_new && is_address && addresses.size() < wire::kMaxInspected) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

wire::ModuleFacts ToModuleFacts(std::string name, const ProgramAnswer& answer) {
  wire::ModuleFacts module{std::move(name), "", ""};
  bool is_imported = false;
  for (std::string_view line : LinesOf(answer.text)) {
    line = Trimmed(line);
    if (line.starts_with(kImported)) {
      is_imported = true;
      module.version = FirstLine(line.substr(kImported.size()));
    } else if (!line.empty()) {
      module.trouble = FirstLine(line);
    }
  }
  if (is_imported) {
    module.trouble.clear();
  } else if (answer.exit_code > 128) {
    module.trouble = fmt::format("Python was killed by signal {}", answer.exit_code - 128);
  } else if (module.trouble.empty()) {
    module.trouble = fmt::format("Python exited with code {}", answer.exit_code);
  }
  return module;
}

std::vector<wire::PackageFacts> Packages(std::string_view output) {
  std::vector<wire::PackageFacts> packages;
  for (std::string_view line : LinesOf(output)) {
    line = Trimmed(line);
    if (!line.starts_with(kPackageMark) || packages.size() >= wire::kMaxInspected) continue;
    line.remove_prefix(kPackageMark.size());
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::string name(line.substr(0, space));
    const bool is_known =
        std::any_of(packages.begin(), packages.end(),
                    [&name](const wire::PackageFacts& package) { return package.name == name; });
    if (!is_known) packages.push_back({name, FirstLine(line.substr(space + 1))});
  }
  return packages;
}

std::vector<wire::VariableFacts> RelevantVariables(
    const std::map<std::string, std::string>& environment) {
  std::vector<wire::VariableFacts> variables;
  for (const auto& [name, value] : environment) {
    const auto begins = [&name = name](std::string_view prefix) {
      return name.starts_with(prefix);
    };
    const auto has = [&name = name](std::string_view word) {
      return name.find(word) != std::string::npos;
    };
    const bool is_wanted =
        std::any_of(kVariablePrefixes.begin(), kVariablePrefixes.end(), begins) ||
        std::find(kVariableNames.begin(), kVariableNames.end(), name) != kVariableNames.end();
    const bool is_secret = std::any_of(kSecretWords.begin(), kSecretWords.end(), has);
    if (!is_wanted || is_secret || variables.size() >= wire::kMaxInspected) continue;
    if (name.size() > kMaxVariableBytes) continue;
    variables.push_back({name, value.substr(0, kMaxVariableBytes), "login"});
  }
  return variables;
}

std::vector<wire::VariableFacts> VariablesOfNcclConf(std::string_view text) {
  std::vector<wire::VariableFacts> variables;
  for (std::string_view line : LinesOf(text)) {
    line = Trimmed(line);
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    const std::string name(Trimmed(line.substr(0, equals)));
    if (name.empty() || name.size() > kMaxVariableBytes) continue;
    if (variables.size() >= wire::kMaxInspected) continue;
    variables.push_back({name,
                         std::string(Trimmed(line.substr(equals + 1)).substr(0, kMaxVariableBytes)),
                         "nccl.conf"});
  }
  return variables;
}

std::string NcclOfFile(std::string_view file_name) {
  constexpr std::string_view kName = "libnccl.so.";
  if (!file_name.starts_with(kName)) return {};
  const std::string_view version = file_name.substr(kName.size());
  const bool is_version = version.find('.') != std::string_view::npos &&
                          version.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_version ? std::string(version) : std::string();
}

void AddHealthOfSmi(std::string_view rows, std::vector<wire::GpuFacts>& gpus) {
  size_t index = 0;
  for (const std::string_view row : LinesOf(rows)) {
    const size_t comma = row.find(',');
    if (comma == std::string_view::npos || index >= gpus.size()) continue;
    wire::GpuFacts& gpu = gpus[index++];
    const std::string_view errors = Trimmed(row.substr(0, comma));
    // "[N/A]" without ECC
    if (!errors.empty() && errors[0] >= '0' && errors[0] <= '9') {
      gpu.ecc_errors = static_cast<int64_t>(std::min(NumberOf(errors), uint64_t{1} << 53));
    }
    const std::string reasons(Trimmed(row.substr(comma + 1)));
    if (reasons.starts_with("0x")) {
      gpu.throttle_reasons = static_cast<uint32_t>(std::strtoull(reasons.c_str(), nullptr, 16));
    }
  }
}

void AddLinksOfSmi(std::string_view output, std::vector<wire::GpuFacts>& gpus) {
  constexpr std::string_view kGpu = "GPU ";
  constexpr std::string_view kLink = "Link ";
  std::optional<size_t> index;
  for (std::string_view line : LinesOf(output)) {
    line = Trimmed(line);
    if (line.starts_with(kGpu)) index = NumberOf(line.substr(kGpu.size()));
    // "Link 3: 26.562 GB/s", "Link 4: <inactive>"
    const bool is_up = line.starts_with(kLink) && line.find("GB/s") != std::string_view::npos;
    if (is_up && index && *index < gpus.size()) ++gpus[*index].nvlinks;
  }
}

void AskGpus(const std::string& program, Duration limit, wire::Inspection& facts) {
  const Result<ProgramAnswer> answer = AskProgram(
      {program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"}, limit);
  if (!answer.ok()) {
    facts.gpu_trouble = answer.status().message();
    return;
  }
  if (answer->exit_code != 0) {
    facts.gpu_trouble = FirstLine(answer->text);
    if (facts.gpu_trouble.empty()) {
      facts.gpu_trouble = fmt::format("nvidia-smi exited with code {}", answer->exit_code);
    }
    return;
  }
  facts.gpus = GpusOfSmi(answer->text, &facts.gpu_driver);
  // Questions of their own: a driver that does not know a field answers none of them.
  const Result<ProgramAnswer> health = AskProgram(
      {program, "--query-gpu=ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active",
       "--format=csv,noheader"},
      limit);
  if (health.ok() && health->exit_code == 0) AddHealthOfSmi(health->text, facts.gpus);
  const Result<ProgramAnswer> links = AskProgram({program, "nvlink", "--status"}, limit);
  if (links.ok() && links->exit_code == 0) AddLinksOfSmi(links->text, facts.gpus);
}

std::vector<wire::GpuFacts> GpusOfSmi(std::string_view rows, std::string* driver) {
  std::vector<wire::GpuFacts> gpus;
  for (const std::string_view row : LinesOf(rows)) {
    // From the right: a name may contain a comma.
    const size_t memory = row.rfind(',');
    const size_t before = memory == 0 || memory == std::string_view::npos
                              ? std::string_view::npos
                              : row.rfind(',', memory - 1);
    if (before == std::string_view::npos || gpus.size() >= wire::kMaxInspected) continue;
    *driver = Trimmed(row.substr(before + 1, memory - before - 1));
    gpus.push_back(
        {std::string(Trimmed(row.substr(0, before))), NumberOf(row.substr(memory + 1)) << 20});
  }
  return gpus;
}

}  // namespace hvdray
