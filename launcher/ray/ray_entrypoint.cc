// SPDX-License-Identifier: Apache-2.0
#include "launcher/ray/ray_entrypoint.h"

#include <fmt/format.h>

#include "cluster/agent_bootstrap.h"

namespace hvdray {
namespace {

constexpr const char* kDriver = ".hvdray/ray_driver.py";

// Only builtins of any /bin/sh: PATH is whatever the raylet started with.
constexpr const char* kFindRaysOwn =
    "while read -r a b c d e f; do case $f in */ray/_raylet.so) s=${f%/ray/_raylet.so};; esac; "
    "done 2>/dev/null </proc/$PPID/maps; "
    "if [ -n \"$s\" ]; then PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$s; export PYTHONPATH; "
    "exec /proc/$PPID/exe -u ";

constexpr const char* kFindPackage =
    "IFS=:; for p in $PYTHONPATH; do [ -f \"$p/{}\" ] && break; done; unset IFS; ";

}  // namespace

std::string RayEntrypoint(const std::string& python, DriverPlace place) {
  const bool is_apart = place == DriverPlace::kModulePath;
  const std::string driver = is_apart ? fmt::format("\"$p/{}\"", kDriver) : kDriver;
  const std::string find = is_apart ? fmt::format(kFindPackage, kDriver) : std::string();
  if (!python.empty()) return fmt::format("{}exec {} -u {}", find, python, driver);
  return fmt::format("{}{}{}; fi; exec python3 -u {}", find, kFindRaysOwn, driver, driver);
}

}  // namespace hvdray
