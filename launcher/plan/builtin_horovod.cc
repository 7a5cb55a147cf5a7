// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/builtin_horovod.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/exec.h"
#include "launcher/plan/build_name.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShim = "hvdray/_horovod";
constexpr std::string_view kLibrary = "libhvdray.so.0";

/// The first that exists; empty: none.
std::string First(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::exists(path, error)) return fs::canonical(path, error).string();
  }
  return {};
}

/// `prefix`: above the program's bin/.
std::string FindShim(const fs::path& prefix) {
  std::vector<fs::path> paths = {prefix / kShim};  // pip install --target
  if (const fs::path own = OwnPythonPath(); !own.empty()) paths.insert(paths.begin(), own / kShim);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      paths.push_back(entry.path() / packages / kShim);
    }
  }
  return First(paths);
}

std::string FindLibrary(const fs::path& prefix) {
  return First({prefix / "collective" / kLibrary, prefix / "lib/hvdray" / kLibrary,
                prefix / "lib" / kLibrary});
}

}  // namespace

Status FindBuiltinHorovod(const JobSpec& spec, const std::string& own, Environment& environment) {
  if (*spec.horovod != HorovodChoice::kBuiltin) return {};
  const fs::path prefix = fs::path(own).parent_path().parent_path();
  const std::string shim = FindShim(prefix);
  const std::string library = environment.GetOr("HVDRAY_LIBRARY", FindLibrary(prefix));
  if (shim.empty() || library.empty()) {
    return {ErrorCode::kUsage,
            fmt::format("{}: {} has no {} with it", spec.horovod.origin(), own,
                        shim.empty() ? "Python package" : kLibrary),
            "install hvdray by pip or cmake --install, which bring both"};
  }
  environment.Set(std::string(kBuiltinHorovod), shim);
  environment.Set("HVDRAY_LIBRARY", library);
  environment.Set("HVDRAY_VERSION", BuildVersion());
  return {};
}

}  // namespace hvdray
