// SPDX-License-Identifier: Apache-2.0
// The bootstrap line under the real shells of this machine, with a real program as the agent.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "base/gzip.h"
#include "cluster/transport/agent_bootstrap.h"
#include "cluster/transport/agent_builds.h"
#include "cluster/transport/child_process.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/stream_owner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

constexpr uid_t kNobody = 65534;

struct Outcome {
  std::string text;
  Status how;
};

class BootstrapShellTest : public testing::TestWithParam<const char*> {
 protected:
  BootstrapShellTest()
      : loop_(std::move(*Loop::Create())), builds_(*AgentBuilds::Load("/bin/echo")) {
    if (::access(GetParam(), X_OK) != 0) has_shell_ = false;
  }

  // What a login shell does with the line; answers the host's question as the transport would.
  Outcome Run(const BootstrapRequest& request, bool is_cut = false,
              const std::string& before = "") {
    Outcome outcome;
    bool has_ended = false;
    const auto on_stderr = [&](const std::string& line) {
      outcome.text += "stderr: " + line + "\n";
    };
    AgentStart start;
    StartChild(*loop_, "shell", {GetParam(), "-c", before + BootstrapCommand(request)}, on_stderr,
               [&](Result<AgentStart> result) { start = std::move(result).value(); });
    EXPECT_TRUE(RunUntil(*loop_, [&] { return start.process != nullptr; }));
    start.process->OnExit([&](Status how) {
      outcome.how = std::move(how);
      has_ended = true;
    });
    bool has_answered = false;
    StreamFunctions handlers;
    handlers.on_data = [&](ByteView bytes) {
      outcome.text += bytes;
      if (has_answered || outcome.text.find("HVDRAY-STAGE/1") == std::string::npos) return;
      has_answered = true;
      const auto build = *builds_.For("Linux", MachineHere());
      const std::string packed = *Gzip(build->bytes);
      start.stream->Write(StageAnswer(build->sha256, packed.size()));
      start.stream->Write(is_cut ? packed.substr(0, packed.size() / 2) : packed);
      if (is_cut) loop_->Post([&] { start.stream.reset(); });
    };
    handlers.on_closed = [](const Status&) {};
    StartStream(*start.stream, std::move(handlers));
    EXPECT_TRUE(RunUntil(*loop_, [&] { return has_ended; }));
    return outcome;
  }

  static std::string OwnDirectory(const BootstrapRequest& request) {
    return fmt::format("{}/hvdray-agents-{}", request.directory, ::geteuid());
  }
  std::string AgentName() const { return "agent-" + builds_.stage_id(); }
  static unsigned ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  static void MakeOldFile(const std::string& path) {
    std::ofstream(path) << "work of a month\n";
    const timespec old[] = {{.tv_sec = 1'000'000'000, .tv_nsec = 0},
                            {.tv_sec = 1'000'000'000, .tv_nsec = 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0) << path;
  }
  static void MakeProgram(const std::string& path, const std::string& script, uid_t owner) {
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    ::chmod(path.c_str(), 0755);
    EXPECT_EQ(::chown(path.c_str(), owner, static_cast<gid_t>(-1)), 0) << path;
  }

  static std::string MachineHere() { return *MachineOfElf(*ReadFile("/proc/self/exe")); }
  std::vector<std::string> Files(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::unique_ptr<Loop> loop_;
  AgentBuilds builds_;
  TempDirectory directory_;
  bool has_shell_ = true;
};

TEST_P(BootstrapShellTest, TheFirstTimeTheAgentIsCopiedAndThenItIsThere) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  BootstrapRequest request{
      builds_.stage_id(), directory_ / "it's a cache", "", {"--spoken", "a b"}};
  const Outcome first = Run(request);
  EXPECT_TRUE(first.how.ok()) << first.how.ToString() << first.text;
  EXPECT_NE(first.text.find("HVDRAY-STAGE/1 Linux"), std::string::npos) << first.text;
  const std::string spoken =
      fmt::format("--folder {} --spoken a b\n", std::filesystem::current_path().string());
  EXPECT_TRUE(first.text.ends_with(spoken)) << first.text;
  EXPECT_EQ(Files(OwnDirectory(request)), std::vector<std::string>{AgentName()});
  EXPECT_EQ(ModeOf(OwnDirectory(request)), 0700U);
  EXPECT_EQ(ModeOf(OwnDirectory(request) + "/" + AgentName()), 0700U);

  const Outcome second = Run(request);
  EXPECT_EQ(second.text, spoken) << "one round trip";
}

TEST_P(BootstrapShellTest, TheUsersFilesInTheDirectoryStayHoweverOldTheyAre) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const BootstrapRequest request{builds_.stage_id(), directory_ / "project", "", {}};
  const std::string digits(32, 'a');
  std::filesystem::create_directories(OwnDirectory(request) + "/deep");
  ::chmod(OwnDirectory(request).c_str(), 0700);
  std::filesystem::create_directories(request.directory + "/proj");
  const std::vector<std::string> kept = {
      request.directory + "/agent-policy.onnx",
      request.directory + "/proj/agent-checkpoint-12.pt",
      request.directory + "/agent-" + digits,
      OwnDirectory(request) + "/agent-notes",
      OwnDirectory(request) + "/deep/agent-" + digits,
  };
  const std::vector<std::string> removed = {OwnDirectory(request) + "/agent-" + digits,
                                            OwnDirectory(request) + "/agent-" + digits + ".h1.77"};
  for (const auto* files : {&kept, &removed}) {
    for (const std::string& file : *files) MakeOldFile(file);
  }
  const Outcome outcome = Run(request);
  EXPECT_TRUE(outcome.how.ok()) << outcome.how.ToString() << outcome.text;
  for (const std::string& file : kept) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  for (const std::string& file : removed) EXPECT_FALSE(std::filesystem::exists(file)) << file;
}

TEST_P(BootstrapShellTest, ADirectoryOrFileThatSomebodyElsePlantedIsNotTrusted) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of others";
  const BootstrapRequest request{builds_.stage_id(), directory_ / "shared", "", {"--spoken"}};
  std::filesystem::create_directories(request.directory);
  ::chmod(request.directory.c_str(), 01777);
  // Where earlier versions looked.
  MakeProgram(request.directory + "/" + AgentName(), "echo PLANTED", kNobody);
  const Outcome beside = Run(request);
  EXPECT_TRUE(beside.text.ends_with("--spoken\n")) << beside.text;
  EXPECT_EQ(beside.text.find("PLANTED"), std::string::npos) << beside.text;

  // A file of another owner within our directory, as root may leave one there by `cp -a`.
  MakeProgram(OwnDirectory(request) + "/" + AgentName(), "echo PLANTED", kNobody);
  const Outcome within = Run(request);
  EXPECT_EQ(within.text.find("PLANTED"), std::string::npos) << within.text;
  EXPECT_TRUE(within.text.ends_with("--spoken\n")) << "staged anew: " << within.text;

  std::filesystem::remove_all(OwnDirectory(request));
  std::filesystem::create_directory(OwnDirectory(request));
  MakeProgram(OwnDirectory(request) + "/" + AgentName(), "echo PLANTED", kNobody);
  ASSERT_EQ(::chown(OwnDirectory(request).c_str(), kNobody, kNobody), 0);
  const Outcome theirs = Run(request);
  EXPECT_TRUE(theirs.text.starts_with("HVDRAY-FAILED/1 " + OwnDirectory(request) + " "));
  EXPECT_TRUE(NamesFacts(theirs.text, {"not yours", "others"})) << theirs.text;

  ASSERT_EQ(::chown(OwnDirectory(request).c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((OwnDirectory(request) + "/" + AgentName()).c_str(), 0, 0), 0);
  ::chmod(OwnDirectory(request).c_str(), 0777);
  EXPECT_EQ(Run(request).text, theirs.text) << "others may write in it";

  std::filesystem::rename(OwnDirectory(request), request.directory + "/elsewhere");
  ::chmod((request.directory + "/elsewhere").c_str(), 0700);
  std::filesystem::create_directory_symlink(request.directory + "/elsewhere",
                                            OwnDirectory(request));
  const Outcome link = Run(request);
  EXPECT_NE(link.text.find(" is a link"), std::string::npos) << link.text;
  EXPECT_EQ(link.text.find("PLANTED"), std::string::npos) << link.text;
}

TEST_P(BootstrapShellTest, ALinkInThePlaceOfTheTemporaryFileIsNotFollowed) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const BootstrapRequest request{builds_.stage_id(), directory_ / "cache", "", {}};
  EXPECT_TRUE(Run(request).how.ok());
  // Nobody else can put it there; links that are there all the same lead nowhere.
  std::filesystem::remove(OwnDirectory(request) + "/" + AgentName());
  const std::string victim = directory_ / "victim";
  std::filesystem::create_symlink(victim, OwnDirectory(request) + "/" + AgentName());
  EXPECT_TRUE(Run(request).how.ok());
  EXPECT_FALSE(std::filesystem::exists(victim));
  EXPECT_FALSE(std::filesystem::is_symlink(OwnDirectory(request) + "/" + AgentName()));
}

TEST_P(BootstrapShellTest, AnUploadThatIsCutLeavesNothing) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const BootstrapRequest request{builds_.stage_id(), directory_ / "cache", "", {}};
  const Outcome outcome = Run(request, /*is_cut=*/true);
  EXPECT_FALSE(outcome.how.ok());
  EXPECT_TRUE(Files(OwnDirectory(request)).empty());
}

TEST_P(BootstrapShellTest, ADirectoryThatCannotBeMadeIsSaid) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const Outcome outcome = Run({builds_.stage_id(), "/proc/none", "", {}});
  EXPECT_NE(outcome.text.find("HVDRAY-FAILED/1 mkdir /proc/none/hvdray-agents-"), std::string::npos)
      << outcome.text;
  EXPECT_FALSE(outcome.how.ok());
}

TEST_P(BootstrapShellTest, ATildeInTheDirectoryIsTheHomeThere) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  BootstrapRequest request = {builds_.stage_id(), "~/of agents", "", {}};
  const std::string home = directory_.path();
  const Outcome outcome = Run(request, /*is_cut=*/false, "HOME=" + home + "; ");
  EXPECT_TRUE(outcome.how.ok()) << outcome.how.ToString() << outcome.text;
  request.directory = home + "/of agents";
  EXPECT_EQ(Files(OwnDirectory(request)), std::vector<std::string>{AgentName()});
}

TEST_P(BootstrapShellTest, WithoutAHomeThatIsSaid) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const std::string before = "unset XDG_CACHE_HOME; HOME=/nowhere; export HOME; ";
  const Outcome outcome = Run({builds_.stage_id(), "", "", {}}, false, before);
  EXPECT_TRUE(NamesFacts(outcome.text, {"HVDRAY-FAILED/1", "home", "/nowhere"})) << outcome.text;
}

TEST_P(BootstrapShellTest, AStartUpFileThatLeavesNoPathDoesNoHarm) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const std::string before = "PATH=/no/such/place; export PATH; ";
  const Outcome outcome =
      Run({builds_.stage_id(), directory_ / "cache", "", {"it", "runs"}}, false, before);
  EXPECT_TRUE(outcome.how.ok()) << outcome.how.ToString() << outcome.text;
  EXPECT_TRUE(outcome.text.ends_with("it runs\n")) << outcome.text;
}

TEST_P(BootstrapShellTest, AnAgentThatIsInstalledIsTakenAsItIs) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const Outcome outcome = Run({builds_.stage_id(), directory_ / "cache", "/bin/echo", {"hello"}});
  EXPECT_EQ(outcome.text, "hello\n");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "cache"));
}

TEST_P(BootstrapShellTest, AnInstalledAgentThatOthersCanReplaceIsNotRun) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const std::string bin = directory_ / "bin";
  std::filesystem::create_directory(bin);
  MakeProgram(bin + "/agent", "echo INSTALLED", ::geteuid());
  const BootstrapRequest request{builds_.stage_id(), directory_ / "cache", bin + "/agent", {}};
  const auto is_run = [&] { return Run(request).text.find("INSTALLED") != std::string::npos; };
  EXPECT_TRUE(is_run());
  ::chmod(bin.c_str(), 0777);
  EXPECT_FALSE(is_run()) << "a directory that anybody may write";
  ::chmod(bin.c_str(), 01777);
  EXPECT_TRUE(is_run()) << "a sticky one: the file there is ours";
  ::chmod((bin + "/agent").c_str(), 0775);
  EXPECT_FALSE(is_run()) << "a file that a group may write";
  ::chmod((bin + "/agent").c_str(), 0755);
  std::filesystem::create_symlink(bin + "/agent", bin + "/link");
  const BootstrapRequest by_link{builds_.stage_id(), directory_ / "cache", bin + "/link", {}};
  EXPECT_EQ(Run(by_link).text.find("INSTALLED"), std::string::npos) << "a link";
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(bin.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(is_run()) << "a directory of somebody else";
}

TEST(HelperTest, AMissingProgramIsNamedWithWhatToDo) {
  const auto helper = SpawnHelper({"/nonexistent/ssh"}, 0, 1, 2, ChildEnd::kItself);
  ExpectFault("ssh is missing", helper.status(), ErrorCode::kAgentStartFailed, "/nonexistent/ssh");
  ExpectSays(helper.status().hint(), {"/nonexistent/ssh"});
}

INSTANTIATE_TEST_SUITE_P(Shells, BootstrapShellTest,
                         testing::Values("/bin/sh", "/bin/bash", "/bin/dash"),
                         [](const auto& suite) { return std::string(suite.param).substr(5); });

}  // namespace
}  // namespace hvdray
