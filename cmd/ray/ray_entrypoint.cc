#include "cmd/ray/ray_entrypoint.h"

#include <fmt/format.h>

#include "cluster/agent_bootstrap.h"

namespace hvdray {
namespace {

constexpr const char* kDriver = ".hvdray/ray_driver.py";

// Builtins of any /bin/sh alone: PATH is whatever the raylet was started with.
constexpr const char* kFindRaysOwn =
    "while read -r a b c d e f; do case $f in */ray/_raylet.so) s=${f%/ray/_raylet.so};; esac; "
    "done 2>/dev/null </proc/$PPID/maps; "
    "if [ -n \"$s\" ]; then PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$s; export PYTHONPATH; "
    "exec /proc/$PPID/exe -u ";

std::string AgentEntrypoint(const std::string& words) {
  // Rays before 2.50 or so unpack without modes.
  return fmt::format("a=.hvdray/hvdray-agent; [ -x $a ] || chmod 755 $a; exec $a {}", words);
}

}  // namespace

std::string RayEntrypoint(const std::string& python) {
  if (!python.empty()) return fmt::format("exec {} -u {}", ShellQuoted(python), kDriver);
  return fmt::format("{}{}; fi; exec python3 -u {}", kFindRaysOwn, kDriver, kDriver);
}

std::string DriverEntrypoint() { return AgentEntrypoint("drive --seats"); }

std::string SeatEntrypoint(size_t seat) { return AgentEntrypoint(fmt::format("seat {}", seat)); }

std::string HurryEntrypoint(const std::string& id) {
  return AgentEntrypoint("drive --hurry " + ShellQuoted(id));
}

}  // namespace hvdray
