// SPDX-License-Identifier: Apache-2.0
// hvdray-gen-cli ROOT: writes the files made from the command and option tables: docs/man,
// docs/completions, tests/golden/help. Also the elastic driver's states in
// docs/elastic.md, and the JSON Schema of cluster files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/fd.h"
#include "cluster/file/cluster_schema.h"
#include "launcher/driver/states.h"
#include "launcher/job/file_pages.h"
#include "launcher/job/help.h"
#include "launcher/job/run_schema.h"

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

template <typename Draw>
bool Redraw(const std::filesystem::path& path, const Draw& draw) {
  const hvdray::Result<std::string> page = hvdray::ReadFile(path);
  if (!page.ok()) {
    std::fprintf(stderr, "hvdray-gen-cli: %s\n", page.status().ToString().c_str());
    return false;
  }
  const hvdray::Result<std::string> drawn = draw(*page);
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
  const hvdray::Result<std::string> changelog = hvdray::ReadFile(root / "CHANGELOG.md");
  if (!changelog.ok()) {
    std::fprintf(stderr, "hvdray-gen-cli: %s\n", changelog.status().ToString().c_str());
    return 1;
  }
  const std::string release = hvdray::NewestRelease(*changelog);
  for (const hvdray::CommandRow& command : hvdray::CommandTable()) {
    if (command.arguments.empty()) continue;
    const std::string name(command.name);
    if (!Write(root / "docs/man" / ("hvdray-" + name + ".1"), hvdray::ManPage(command, release)))
      return 1;
    if (!Write(root / "tests/golden/help" / (name + ".txt"), hvdray::Help(command))) return 1;
  }
  // A job has a page of its own.
  const hvdray::Json cluster =
      hvdray::Json::parse(hvdray::ClusterJsonSchema(hvdray::Json::object()));
  const bool is_written =
      Write(root / "tests/golden/help/hvdray.txt", hvdray::OverviewHelp()) &&
      Write(root / "docs/man/hvdray.1", hvdray::OverviewManPage(release)) &&
      Write(root / "docs/man/hvdray-job.5", hvdray::JobFilePage(release)) &&
      Write(root / "docs/man/hvdray-cluster.5", hvdray::ClusterFilePage(cluster, release)) &&
      Write(root / "docs/completions/hvdray.bash", hvdray::BashCompletion()) &&
      Write(root / "docs/completions/_hvdray", hvdray::ZshCompletion()) &&
      Write(root / "docs/completions/hvdray.fish", hvdray::FishCompletion()) &&
      Redraw(root / "docs/elastic.md", hvdray::WithElasticChart) &&
      Write(root / "configs/schema/cluster.schema.json",
            hvdray::ClusterJsonSchema(hvdray::RunSectionSchema()));
  return is_written ? 0 : 1;
}
