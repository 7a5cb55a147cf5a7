// SPDX-License-Identifier: Apache-2.0
// Compares with rsync itself, on random trees, excludes and files of patterns.
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

const std::vector<std::string> kDirectories = {"a",    "b",   "ab",   "a.log",
                                               "logs", "x y", "data", ".git"};
// Without a backslash in directories: rsync itself mistakes it for part of its patterns.
const std::vector<std::string> kFiles = {"a",   "b",   "ab",   "a.log", "b.log",
                                         "x y", "a]b", "e\\f", "!a"};
const std::vector<std::string> kPatterns = {
    "a",     "*.log",   "/a",        "logs/*.log", "data/**", "data/***",    "data/",
    ".git",  "**/a",    "**a",       "a**b",       "a/b",     "a/**/b",      "/data/a",
    "[ab]",  "[!a]*",   "?",         "*",          "*/",      "/*/",         "/*",
    "**",    "***",     "x y",       "x\\ y",      "e\\f",    "e\\\\*",      "a\\*",
    "[",     "- a.log", "+ a",       "+ *.log",    "+ */",    "!",           "!a",
    "# no",  "; no",    "/**/a",     "**/",        "b/*",     "*b*/*",       "data/**/b",
    "logs",  "/logs/",  "/data/***", "a/",         "*/*/a",   "[[:alpha:]]", "**/logs/",
    "/a/b/", "data/**/"};

struct Tree {
  std::vector<std::string> excludes;
  std::string text;  ///< For failures.
};

Tree Grow(const std::string& top, uint32_t seed) {
  std::mt19937 random(seed);
  const auto any = [&random](const std::vector<std::string>& words) -> const std::string& {
    return words[random() % words.size()];
  };
  std::vector<std::string> directories = {top + "/"};
  for (int i = 0; i < 10; ++i) {
    const std::string directory = any(directories) + any(kDirectories);
    if (fs::create_directory(directory)) directories.push_back(directory + "/");
  }
  for (int i = 0; i < 40; ++i) {
    const std::string path = any(directories) + any(kFiles);
    if (!fs::exists(path)) std::ofstream(path) << "x";
  }
  Tree tree;
  for (uint32_t n = random() % 5; n > 0; --n) tree.excludes.push_back(any(kPatterns));
  for (const std::string& exclude : tree.excludes) tree.text += exclude + "\n";
  for (uint32_t i = random() % 3; i > 0; --i) {
    const std::string path = any(directories) + ".rules";
    std::string lines;
    for (uint32_t n = random() % 4; n > 0; --n) lines += any(kPatterns) + "\n";
    std::ofstream(path) << lines;
    tree.text += fmt::format("--- {}\n{}", path, lines);
  }
  return tree;
}

/// What arrives below `target`.
std::set<std::string> CopyOfRsync(const std::string& top, const std::string& target,
                                  const Tree& tree) {
  std::string command = "rsync -a";
  for (const std::string& exclude : tree.excludes) {
    command += " '--exclude=" + exclude + "'";
  }
  command += fmt::format(" '--filter=dir-merge,- .rules' {}/ {}/", top, target);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::set<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(target)) {
    paths.insert(fs::relative(entry.path(), target).string());
  }
  return paths;
}

TEST(RsyncFilterPropertyTest, ListsWhatRsyncCopies) {
  if (std::system("rsync --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no rsync here";
  std::set<size_t> sizes;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    const TempDirectory top;
    const TempDirectory target;
    const Tree tree = Grow(top.path(), seed);
    DirectoryRules rules;
    rules.patterns = PatternRule::kRsync;
    rules.ignore_files = {".rules"};
    rules.excludes = tree.excludes;
    const Result<DirectoryListing> listing = ListDirectory(top.path(), rules);
    ASSERT_TRUE(listing.ok()) << listing.status().ToString();
    std::set<std::string> listed;
    for (const wire::DirectoryEntry& entry : listing->entries) listed.insert(entry.path);
    EXPECT_EQ(listed, CopyOfRsync(top.path(), target.path(), tree)) << "seed " << seed << "\n"
                                                                    << tree.text;
    sizes.insert(listed.size());
  }
  EXPECT_GT(sizes.size(), 10U) << "the trees are too much alike to show anything";
}

}  // namespace
}  // namespace hvdray
