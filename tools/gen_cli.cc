// SPDX-License-Identifier: Apache-2.0
// hvdray-gen-cli ROOT: writes the files that come from the option table below ROOT: docs/cli.md,
// the pages of docs/man, docs/completions/hvdray.bash,
// tests/golden/help/. Also draws the elastic driver's states in docs/elastic.md.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/fd.h"
#include "cmd/command_list.h"
#include "cmd/ray_options.h"
#include "launcher/driver/elastic_chart.h"
#include "launcher/job/help.h"
#include "launcher/job/replay_options.h"

namespace {

bool Write(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return true;
  std::fprintf(stderr, "hvdray-gen-cli: cannot write %s\n", path.c_str());
  return false;
}

bool Redraw(const std::filesystem::path& path) {
  const hvdray::Result<std::string> page = hvdray::ReadFile(path);
  if (!page.ok()) {
    std::fprintf(stderr, "hvdray-gen-cli: %s\n", page.status().ToString().c_str());
    return false;
  }
  const hvdray::Result<std::string> drawn = hvdray::WithElasticChart(*page);
  if (drawn.ok()) return Write(path, *drawn);
  std::fprintf(stderr, "hvdray-gen-cli: %s: %s\n", path.c_str(), drawn.status().ToString().c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: hvdray-gen-cli ROOT\n", stderr);
    return 2;
  }
  const std::filesystem::path root(argv[1]);
  for (const hvdray::ManPage& page : hvdray::RayManPages()) {
    if (!Write(root / "docs/man" / page.name, page.text)) return 1;
  }
  const std::string options = hvdray::RunMarkdown() + hvdray::RayCommandsMarkdown();
  const bool is_written = Write(root / "docs/cli.md", options) &&
                          Write(root / "docs/man/hvdray.1", hvdray::OverviewManPage()) &&
                          Write(root / "docs/man/hvdray-run.1", hvdray::RunManPage()) &&
                          Write(root / "docs/man/hvdray-check.1", hvdray::CheckManPage()) &&
                          Write(root / "docs/man/hvdray-replay.1", hvdray::ReplayManPage()) &&
                          Write(root / "tests/golden/help/check.txt", hvdray::CheckHelp(80)) &&
                          Write(root / "tests/golden/help/replay.txt", hvdray::ReplayHelp()) &&
                          Write(root / "docs/completions/hvdray.bash", hvdray::BashCompletion()) &&
                          Write(root / "tests/golden/help/run.txt", hvdray::RunHelp(80)) &&
                          Redraw(root / "docs/elastic.md");
  return is_written ? 0 : 1;
}
