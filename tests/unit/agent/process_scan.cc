// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/process_scan.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "base/fd.h"

namespace hvdray {
namespace {

constexpr auto kLimit = std::chrono::minutes(1);
constexpr auto kLook = std::chrono::milliseconds(1);

bool IsZombie(pid_t pid) {
  const Result<std::string> stat = ReadFile(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok()) return true;
  const size_t close = stat->rfind(')');
  return close == std::string::npos || close + 2 >= stat->size() || (*stat)[close + 2] == 'Z';
}

}  // namespace

std::string MakeMark() {
  static int counter = 0;
  return fmt::format("HVDRAY_TEST_MARK={}-{}", ::getpid(), ++counter);
}

std::vector<pid_t> FindMarked(const std::string& mark) {
  std::vector<pid_t> found;
  DIR* directory = ::opendir("/proc");
  while (const dirent* entry = ::readdir(directory)) {
    const pid_t pid = ::atoi(entry->d_name);
    if (pid <= 0) continue;
    const Result<std::string> text = ReadFile(fmt::format("/proc/{}/environ", pid));
    if (!text.ok()) continue;
    const std::string entries = '\0' + *text;
    if (entries.find('\0' + mark + '\0') != std::string::npos && !IsZombie(pid)) {
      found.push_back(pid);
    }
  }
  ::closedir(directory);
  return found;
}

bool WaitFor(Loop& loop, const std::function<bool()>& is_done) {
  if (is_done()) return true;
  bool is_late = false;
  const Watch limit = loop.After(kLimit, [&] {
    is_late = true;
    loop.Stop();
  });
  const Watch look = loop.Every(kLook, [&] {
    if (is_done()) loop.Stop();
  });
  while (!is_late) {
    if (is_done()) return true;
    loop.Run();
  }
  return is_done();
}

bool WaitFor(const std::function<bool()>& is_done) {
  auto loop = Loop::Create();
  return loop.ok() && WaitFor(**loop, is_done);
}

}  // namespace hvdray
