// SPDX-License-Identifier: Apache-2.0
// Packages for Ray: what is in them as Python's zipfile reads it, when their names change, and what
// is refused.
#include "cluster/ray/job_package.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "base/fd.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/package.txt");

namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text, mode_t mode = 0644) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0) << path;
}

/// A directory with an agent beside it.
struct World {
  TempDirectory root;
  std::string agent = root / "hvdray-agent";
  std::string dir = root / "work";

  World() {
    Write(agent,
          "\x7f"
          "ELF agent",
          0700);
    fs::create_directories(dir);
  }
  PackagePlan Plan(const std::vector<std::string>& excludes = {}) const {
    Result<PackagePlan> plan = PlanPackage(agent, dir, excludes);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() ? std::move(plan).value() : PackagePlan();
  }
  Status StatusOfPlan() const { return PlanPackage(agent, dir, {}).status(); }
};

std::set<std::string> FileNames(const PackagePlan& plan) {
  std::set<std::string> names;
  for (const PackageEntry& entry : plan.entries) {
    if (entry.name.starts_with("files/")) names.insert(entry.name.substr(6));
  }
  return names;
}

using Names = std::set<std::string>;

/// "name mode sha" of everything that python3's zipfile finds, sorted.
std::string ReadByPython(const std::string& bytes) {
  const TempDirectory directory;
  Write(directory / "x.zip", bytes);
  const std::string program =
      "import hashlib, sys, zipfile\n"
      "z = zipfile.ZipFile(sys.argv[1])\n"
      "assert z.testzip() is None\n"
      "with open(sys.argv[2], 'w') as out:\n"
      "    for i in sorted(z.infolist(), key=lambda i: i.filename):\n"
      "        kind = 'd' if i.is_dir() else hashlib.sha256(z.read(i)).hexdigest()\n"
      "        out.write('%s %o %s\\n' % (i.filename, i.external_attr >> 16 & 0o777, kind))\n";
  Write(directory / "read.py", program);
  const std::string command = "python3 " + (directory / "read.py") + " " + (directory / "x.zip") +
                              " " + (directory / "out");
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT: a test of what another program reads
  const Result<std::string> text = ReadFile(directory / "out");
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : std::string();
}

TEST(JobPackageTest, PythonReadsTheAgentTheDriverAndTheDirectory) {
  const World world;
  Write(world.dir + "/train.py", "print(1)\n");
  Write(world.dir + "/bin/tool", "#!/bin/sh\n", 0750);
  fs::create_directories(world.dir + "/empty");
  const Result<std::string> zip = BuildPackage(world.Plan());
  ASSERT_TRUE(zip.ok()) << zip.status().ToString();
  const std::string found = ReadByPython(*zip);
  EXPECT_NE(found.find(".hvdray/hvdray-agent 755 "), std::string::npos) << found;
  EXPECT_NE(found.find(".hvdray/ray_driver.py 644 "), std::string::npos) << found;
  EXPECT_NE(found.find("files/ 755 d\n"), std::string::npos) << found;
  EXPECT_NE(found.find("files/bin/tool 750 "), std::string::npos) << found;
  EXPECT_NE(found.find("files/empty/ 755 d\n"), std::string::npos) << found;
  EXPECT_NE(found.find("files/train.py 644 "), std::string::npos) << found;
}

TEST(JobPackageTest, WithoutADirectoryThereIsOnlyOurs) {
  const World world;
  const Result<PackagePlan> plan = PlanPackage(world.agent, "", {});
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(FileNames(*plan), Names());
  EXPECT_EQ(plan->entries.size(), 3U);
  EXPECT_EQ(plan->name.size(), std::string("hvdray_0123456789abcdef.zip").size());
}

TEST(JobPackageTest, TheNameIsOfNamesModesAndBytesAlone) {
  const World world;
  Write(world.dir + "/a", "one");
  const std::string name = world.Plan().name;
  Write(world.dir + "/a", "one");  // another time
  EXPECT_EQ(world.Plan().name, name);
  ASSERT_EQ(::chmod((world.dir + "/a").c_str(), 0755), 0);
  const std::string executable = world.Plan().name;
  EXPECT_NE(executable, name) << "Ray's own packages keep the old mode";
  Write(world.dir + "/a", "two", 0755);
  EXPECT_NE(world.Plan().name, executable);
  fs::rename(world.dir + "/a", world.dir + "/b");
  const std::string renamed = world.Plan().name;
  EXPECT_NE(renamed, world.Plan({"b"}).name);
  Write(world.agent, "another build", 0700);
  EXPECT_NE(world.Plan().name, renamed);
}

TEST(JobPackageTest, EqualDirectoriesMakeEqualBytesWhereverTheyAre) {
  const World one;
  const World other;
  for (const World* world : {&one, &other}) Write(world->dir + "/x/y.txt", "text");
  EXPECT_EQ(one.Plan().name, other.Plan().name);
  EXPECT_EQ(*BuildPackage(one.Plan()), *BuildPackage(other.Plan()));
}

TEST(JobPackageTest, LeavesOutWhatIgnoreFilesAndExcludesName) {
  const World world;
  for (const char* path :
       {"a.py", "a.log", "keep.log", "data/big", "data/small", ".git/HEAD", ".venv/x", "venv/x",
        "pkg/__pycache__/a.pyc", "pkg/b.py", ".hvdray/mine", "sub/.hvdray/kept", "ray.tmp"}) {
    Write(world.dir + "/" + path, "x");
  }
  Write(world.dir + "/.gitignore", "*.log\n!keep.log\n");
  Write(world.dir + "/.rayignore", "*.tmp\n");
  Write(world.dir + "/data/.gitignore", "big\n");
  EXPECT_EQ(FileNames(world.Plan()),
            (Names{".gitignore", ".rayignore", ".hvdray", ".hvdray/mine", "a.py", "keep.log",
                   "data", "data/.gitignore", "data/small", "pkg", "pkg/b.py", "sub", "sub/.hvdray",
                   "sub/.hvdray/kept"}));
  EXPECT_EQ(FileNames(world.Plan({"keep.log", "data/", "sub", ".hvdray", "!venv"})),
            (Names{".gitignore", ".rayignore", "a.py", "pkg", "pkg/b.py", "venv", "venv/x"}))
      << "an exclude wins over what .gitignore keeps";
}

TEST(JobPackageTest, LinksAreFollowed) {
  const World world;
  Write(world.root / "outside/tool", "#!/bin/sh\n", 0755);
  Write(world.dir + "/real/file", "text");
  fs::create_symlink(world.root / "outside/tool", world.dir + "/tool");
  fs::create_symlink("real", world.dir + "/again");
  const PackagePlan plan = world.Plan();
  EXPECT_EQ(FileNames(plan), (Names{"again", "again/file", "real", "real/file", "tool"}));
  const Result<std::string> zip = BuildPackage(plan);
  ASSERT_TRUE(zip.ok()) << zip.status().ToString();
  EXPECT_NE(ReadByPython(*zip).find("tool 755 "), std::string::npos);
}

TEST(JobPackageTest, WhatCannotGoAlongIsNamedOnceWithAWayOut) {
  const World world;
  fs::create_symlink("nowhere", world.dir + "/dangling");
  Status status = world.StatusOfPlan();
  ExpectError(
      status, ErrorCode::kUsage,
      {world.dir + "/dangling -> nowhere", "leads nowhere", "hint: ", "--exclude", ".gitignore"});
  fs::remove(world.dir + "/dangling");

  ASSERT_EQ(::mkfifo((world.dir + "/pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((world.dir + "/pipe2").c_str(), 0600), 0);
  ExpectError(world.StatusOfPlan(), ErrorCode::kUsage,
              {world.dir + "/pipe", "named pipe", "1 more"});
  fs::remove(world.dir + "/pipe");
  fs::remove(world.dir + "/pipe2");

  fs::create_directories(world.dir + "/sub");
  fs::create_symlink("..", world.dir + "/sub/up");
  ExpectError(world.StatusOfPlan(), ErrorCode::kUsage, {world.dir + "/sub/up -> ..", "above"});
  fs::remove(world.dir + "/sub/up");

  Write(world.dir + "/\xff.txt", "x");
  const Result<std::string> zip = BuildPackage(world.Plan());
  EXPECT_EQ(zip.status().code(), ErrorCode::kUsage);
  EXPECT_NE(zip.status().message().find("the name is not UTF-8"), std::string::npos);
}

TEST(JobPackageTest, AFileThatMayNotBeReadIsNamed) {
  if (::geteuid() == 0) return;  // root reads everything
  const World world;
  Write(world.dir + "/secret", "x", 0000);
  EXPECT_EQ(world.StatusOfPlan().code(), ErrorCode::kFileUnreadable);
}

TEST(JobPackageTest, AMissingAgentOrDirectoryIsNamed) {
  const World world;
  Status status = PlanPackage(world.root / "none", "", {}).status();
  EXPECT_EQ(status.code(), ErrorCode::kFileUnreadable);
  EXPECT_NE(status.message().find("/none: "), std::string::npos);
  status = PlanPackage(world.agent, world.root / "none", {}).status();
  EXPECT_EQ(status.code(), ErrorCode::kFileUnreadable);
}

TEST(JobPackageTest, OneThatIsTooLargeNamesTheLargestFiles) {
  const World world;
  std::mt19937 random(7);
  std::string noise(size_t{1300} << 10, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  Write(world.dir + "/big/one.bin", noise);
  Write(world.dir + "/two.bin", noise.substr(0, size_t{200} << 10));
  for (const char* name : {"c", "d", "e", "f"}) Write(world.dir + "/" + name, "x");
  const PackagePlan plan = world.Plan();
  const Result<std::string> zip = BuildPackage(plan, size_t{1} << 20);
  ASSERT_EQ(zip.status().code(), ErrorCode::kPackageTooLarge) << zip.status().ToString();
  ExpectError(zip.status(), ErrorCode::kPackageTooLarge,
              {world.dir, "6 files", "1.5 MiB", "1.0 MiB",
               "big/one.bin 1.3 MiB, two.bin 200 KiB, c 0 KiB, d 0 KiB, e 0 KiB"});
  EXPECT_TRUE(BuildPackage(plan).ok());
}

TEST(JobPackageTest, WhatCountsIsTheSizeWhenCompressed) {
  const World world;
  Write(world.dir + "/zeroes", std::string(size_t{4} << 20, '\0'));
  const Result<std::string> zip = BuildPackage(world.Plan(), size_t{1} << 20);
  ASSERT_TRUE(zip.ok()) << zip.status().ToString();
}

TEST(JobPackageTest, ADirectoryThatNeverFitsIsNotEvenRead) {
  const World world;
  Write(world.dir + "/sparse", "");
  fs::resize_file(world.dir + "/sparse", uint64_t{20} << 30);
  EXPECT_EQ(world.StatusOfPlan().code(), ErrorCode::kPackageTooLarge);
}

TEST(JobPackageTest, AFileThatChangesInBetweenIsNamed) {
  const World world;
  Write(world.dir + "/a", "one");
  const PackagePlan plan = world.Plan();
  Write(world.dir + "/a", "longer");
  ExpectSays(BuildPackage(plan).status().message(), {world.dir + "/a", "changed"});
  fs::remove(world.dir + "/a");
  EXPECT_EQ(BuildPackage(plan).status().code(), ErrorCode::kFileUnreadable);
}

TEST(JobPackageTest, TheJobsOwnFileIsItsOwnersAlone) {
  const Result<std::string> zip = BuildJobFilePackage("{}");
  ASSERT_TRUE(zip.ok()) << zip.status().ToString();
  EXPECT_TRUE(ReadByPython(*zip).starts_with("hvdray_job/job.json 600 "));
  const Result<std::string> both = BuildJobFilePackage("{}", "what a client says");
  ASSERT_TRUE(both.ok()) << both.status().ToString();
  const std::string listed = ReadByPython(*both);
  EXPECT_NE(listed.find("hvdray_job/job.json 600 "), std::string::npos) << listed;
  EXPECT_NE(listed.find("hvdray_job/control 600 "), std::string::npos) << listed;
  EXPECT_EQ(JobFilePackageName("hvd-1"), "hvdray_job_hvd-1.zip");
  EXPECT_EQ(ForceStopPackageName("hvd-1"), "hvdray_now_hvd-1.zip");
}

TEST(JobPackagePropertyTest, PythonUnpacksTheTreeThatIsThere) {
  constexpr uint32_t kSeed = 20261122;
  std::mt19937 random(kSeed);
  const auto below = [&random](uint32_t n) { return random() % n; };
  for (int round = 0; round < 6; ++round) {
    const World world;
    std::map<std::string, std::string> wanted;
    for (uint32_t i = 0, n = 1 + below(12); i < n; ++i) {
      std::string path;
      for (uint32_t depth = below(4); depth > 0; --depth) {
        path += "d" + std::to_string(below(3)) + "/";
      }
      path += "\xc3\xa9 f" + std::to_string(i);
      std::string bytes(below(4) == 0 ? 70000 : below(200), '\0');
      for (char& c : bytes) c = static_cast<char>(below(3) == 0 ? below(256) : 'a');
      const mode_t mode = 0400 | (below(2) << 6 & 0100) | (below(8) << 3) | below(8);
      Write(world.dir + "/" + path, bytes, mode);
      wanted[path] = bytes;
    }
    const Result<std::string> zip = BuildPackage(world.Plan());
    ASSERT_TRUE(zip.ok()) << kSeed << " round " << round << ": " << zip.status().ToString();
    const TempDirectory unpacked;
    Write(unpacked / "x.zip", *zip);
    const std::string command = "cd " + unpacked.path() + " && python3 -m zipfile -e x.zip out";
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT: what Ray's nodes do
    const std::string listed = ReadByPython(*zip);
    for (const auto& [path, bytes] : wanted) {
      const Result<std::string> text = ReadFile(unpacked / ("out/files/" + path));
      ASSERT_TRUE(text.ok()) << kSeed << " round " << round << ": " << text.status().ToString();
      EXPECT_EQ(*text, bytes) << kSeed << " round " << round << ": " << path;
      struct stat info {};
      ASSERT_EQ(::stat((world.dir + "/" + path).c_str(), &info), 0);
      char mode[8];
      std::snprintf(mode, sizeof mode, "%o", info.st_mode & 0777);
      EXPECT_NE(listed.find(path + " " + mode + " "), std::string::npos)
          << kSeed << " round " << round << ": " << path;
    }
    size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(unpacked / "out")) {
      files += entry.is_regular_file() ? 1 : 0;
    }
    EXPECT_EQ(files, wanted.size() + 2) << "nothing but those and our two";
  }
}

}  // namespace
}  // namespace hvdray
