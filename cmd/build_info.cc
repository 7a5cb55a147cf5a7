// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "agent/host_inspection.h"
#include "agent/inspector.h"
#include "base/environ.h"
#include "base/text.h"
#include "cmd/commands.h"
#include "launcher/plan/build_name.h"

namespace hvdray {
namespace {

std::string OrNone(std::string version) { return version.empty() ? "none" : std::move(version); }

constexpr Duration kAskLimit = std::chrono::seconds(10);

// Looks at Horovod's files without importing them, which would load the frameworks. A library built
// with NCCL contains the names of its functions.
constexpr std::string_view kAskHorovod =
    "import glob, importlib.metadata, importlib.util, os, sys\n"
    "sys.path = [path for path in sys.path if path]  # not the current directory\n"
    "spec = importlib.util.find_spec('horovod')\n"
    "if spec is not None and spec.submodule_search_locations:\n"
    "    print('version=' + importlib.metadata.version('horovod'))\n"
    "    for directory in spec.submodule_search_locations:\n"
    "        for name in ('tensorflow', 'torch', 'mxnet'):\n"
    "            for path in glob.glob(os.path.join(directory, name, 'mpi_lib*.so')):\n"
    "                print(name + '=1')\n"
    "                with open(path, 'rb') as library:\n"
    "                    if b'ncclCommInitRank' in library.read():\n"
    "                        print('nccl=1')\n";

/// The Horovod of the first Python on PATH.
struct HorovodHere {
  std::string python;  ///< Empty: there is no Python.
  std::map<std::string, std::string, std::less<>> facts;
  bool Has(std::string_view name) const { return facts.contains(name); }
  std::string version() const { return Has("version") ? facts.at("version") : std::string(); }
};

HorovodHere AskHorovod() {
  HorovodHere here;
  wire::Inspect inspect;
  inspect.path = Environment::FromProcess().GetOr("PATH", "");
  for (const char* name : {"python3", "python"}) {
    inspect.command = name;
    const FoundCommand found = FindCommand(inspect);
    if (found.error != 0) continue;
    here.python = found.path;
    break;
  }
  if (here.python.empty()) return here;
  const Result<ProgramAnswer> answer =
      AskProgram({here.python, "-c", std::string(kAskHorovod)}, kAskLimit);
  if (!answer.ok() || answer->exit_code != 0) return here;
  for (const std::string_view line : LinesOf(answer->text)) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    here.facts.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return here;
}

std::string WhereHorovodIs(const HorovodHere& horovod) {
  if (horovod.python.empty()) return "No python3 on PATH, so Horovod was not checked";
  if (horovod.version().empty()) {
    return fmt::format("No Horovod in {} (workers may use another Python)", horovod.python);
  }
  return fmt::format("Horovod {} in {} (workers may use another Python)", horovod.version(),
                     horovod.python);
}

}  // namespace

std::string VersionText() {
  const std::string gpu = std::string_view(HVDRAY_NCCL).empty()
                              ? "without NCCL: no collectives of GPUs"
                              : fmt::format("CUDA {}, NCCL {}", HVDRAY_CUDA, HVDRAY_NCCL);
  return BuildName() + "\nbuilt with " HVDRAY_LIBRARIES "\n" + gpu + "\n";
}

std::string HorovodrunVersion() {
  const std::string version = AskHorovod().version();
  return version.empty() ? VersionText() : fmt::format("{}\n{}", version, VersionText());
}

std::string BuildTable() {
  const HorovodHere horovod = AskHorovod();
  const auto row = [](bool is_there, std::string_view name) {
    return fmt::format("    [{}] {}\n", is_there ? 'X' : ' ', name);
  };
  return BuildName() + ":\n" + WhereHorovodIs(horovod) + "\n\nAvailable Frameworks:\n" +
         row(horovod.Has("tensorflow"), "TensorFlow") + row(horovod.Has("torch"), "PyTorch") +
         row(horovod.Has("mxnet"), "MXNet") + "\nAvailable Controllers:\n" + row(false, "MPI") +
         row(true, "Gloo") + "\nAvailable Tensor Operations:\n" + row(horovod.Has("nccl"), "NCCL") +
         row(false, "DDL") + row(false, "CCL") + row(false, "MPI") + row(true, "Gloo") +
         fmt::format("\nThe collective library was built with: CUDA {}, NCCL {}\n",
                     OrNone(HVDRAY_CUDA), OrNone(HVDRAY_NCCL));
}

}  // namespace hvdray
