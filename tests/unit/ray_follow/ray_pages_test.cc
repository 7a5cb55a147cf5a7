// SPDX-License-Identifier: Apache-2.0
// The pages of the commands that look at Ray are those in the tree, and whole.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cmd/ray_options.h"

namespace hvdray {
namespace {

std::string FileText(const std::string& name) {
  const std::ifstream in(name, std::ios::binary);  // tests run in the source directory
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

constexpr const char* kHowToUpdate = "update with: hvdray-gen-cli . (in the source directory)";

TEST(RayPagesTest, FilesInTheTreeAreUpToDate) {
  EXPECT_TRUE(FileText("docs/cli.md").ends_with(RayCommandsMarkdown())) << kHowToUpdate;
  for (const ManPage& page : RayManPages()) {
    EXPECT_EQ(FileText("docs/man/" + page.name), page.text) << kHowToUpdate;
  }
}

TEST(RayPagesTest, EveryCommandHasItsWordsInBoth) {
  const std::string markdown = RayCommandsMarkdown();
  for (const char* words :
       {"# hvdray follow\n", "# hvdray status\n", "# hvdray jobs\n", "# hvdray slots\n",
        "# hvdray rendezvous\n", "| `--kv-hold DURATION` | ", "| `ID` | ", "| `-q`, `--quiet` | ",
        "| `--output-filename DIR` | ", "| `--timeout DURATION` | ", "(default 30s)",
        "| `--ray-verify true\\|false\\|PATH` | ", "; HVDRAY_LABEL_SELECTOR |"}) {
    EXPECT_NE(markdown.find(words), std::string::npos) << words << markdown;
  }
  const std::vector<ManPage> pages = RayManPages();
  ASSERT_EQ(pages.size(), 5U);
  EXPECT_EQ(pages[4].name, "hvdray-rendezvous.1");
  EXPECT_EQ(pages[3].name, "hvdray-slots.1");
  EXPECT_NE(pages[3].text.find("\n.B \\-\\-cpus\\-per\\-slot N\n"), std::string::npos)
      << pages[3].text;
}

}  // namespace
}  // namespace hvdray
