// SPDX-License-Identifier: Apache-2.0
// Compares with git itself, on random trees and .gitignore files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "launcher/engine/directory_list.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {"a",   "b",   "ab",    "a.log", "b.log", "log",
                                         "x y", "a]b", "build", "#c",    "!d",    "e\\f"};
const std::vector<std::string> kPatterns = {
    "a",       "*.log",  "/a",     "!a.log", "build/",    "b/",       "a/b",         "**/a",
    "a/**",    "a/**/b", "[ab]",   "[!ab]",  "[a-b].log", "\\#c",     "\\!d",        "x\\ y",
    "x y  ",   "a\\]b",  "?",      "*",      "!*/",       "!/a/",     "e\\\\f",      "/*",
    "!/b",     "a**",    "**",     "*/a",    "b/*",       "!b/*.log", "[[:alpha:]]", "[[:nope:]]",
    "[",       "# no",   "",       "!",      "/",         "a/",       "*b*",         "log/**/*.log",
    "**/log/", "\xff",   "[\\]]*", "***/b",  "a\\",       "/**/b",    "build\r",     "!build/a"};

/// Fills the tree; returns its .gitignore files as text.
std::string Grow(const std::string& tree, uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&random](const std::vector<std::string>& words) -> const std::string& {
    return words[random() % words.size()];
  };
  std::vector<std::string> directories = {tree + "/"};
  for (int i = 0; i < 8; ++i) {
    const std::string directory = any(directories) + any(kNames);
    if (fs::create_directory(directory)) directories.push_back(directory + "/");
  }
  for (int i = 0; i < 40; ++i) {
    const std::string path = any(directories) + any(kNames);
    if (!fs::exists(path)) std::ofstream(path) << "x";
  }
  std::string rules;
  for (int i = 0; i < 3; ++i) {
    const std::string path = (i == 0 ? directories[0] : any(directories)) + ".gitignore";
    std::string text;
    for (uint32_t n = random() % 6; n > 0; --n) text += any(kPatterns) + "\n";
    std::ofstream(path) << text;
    rules += fmt::format("--- {}\n{}", path, text);
  }
  return rules;
}

/// All files of the tree that git does not ignore.
std::set<std::string> ListOfGit(const std::string& repository, const std::string& tree) {
  const std::string command = fmt::format(
      "cd {} && git -c core.ignorecase=false --git-dir={} --work-tree=. ls-files -z -o "
      "--exclude-per-directory=.gitignore 2>/dev/null",
      tree, repository);
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(pipe), 0);
  std::set<std::string> paths;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\0', at);
    paths.insert(text.substr(at, end - at));
    at = end + 1;
  }
  return paths;
}

TEST(DirectoryListPropertyTest, IgnoresWhatGitIgnores) {
  const TempDirectory repository;
  const std::string init = "git init -q --bare " + repository.path() + " >/dev/null 2>&1";
  if (std::system(init.c_str()) != 0) GTEST_SKIP() << "no git here";
  std::set<size_t> sizes;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const TempDirectory tree;
    const std::string rules = Grow(tree.path(), seed);
    const Result<DirectoryListing> listing = ListDirectory(tree.path());
    ASSERT_TRUE(listing.ok());
    std::set<std::string> listed;
    for (const wire::DirectoryEntry& entry : listing->entries) {
      if (entry.kind == wire::DirectoryEntryKind::kFile) listed.insert(entry.path);
    }
    EXPECT_EQ(listed, ListOfGit(repository.path(), tree.path())) << "seed " << seed << "\n"
                                                                 << rules;
    sizes.insert(listed.size());
  }
  EXPECT_GT(sizes.size(), 10U) << "the trees are too much alike to show anything";
}

}  // namespace
}  // namespace hvdray
