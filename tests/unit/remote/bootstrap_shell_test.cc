// The bootstrap line under the real shells of this machine, with a real program as the agent.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/gzip.h"
#include "cluster/agent_bootstrap.h"
#include "cluster/agent_builds.h"
#include "cluster/child_process.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

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
    ChildOptions child;
    child.command = {GetParam(), "-c", before + BootstrapCommand(request)};
    child.name = "shell";
    child.on_stderr = [&](const std::string& line) { outcome.text += "stderr: " + line + "\n"; };
    Result<AgentStart> start = StartChild(*loop_, std::move(child));
    EXPECT_TRUE(start.ok());
    start->process->OnExit([&](Status how) {
      outcome.how = std::move(how);
      has_ended = true;
    });
    bool has_answered = false;
    ByteStream::Handlers handlers;
    handlers.on_data = [&](ByteView bytes) {
      outcome.text += bytes;
      if (has_answered || outcome.text.find("HVDRAY-STAGE/1") == std::string::npos) return;
      has_answered = true;
      const auto build = *builds_.For("Linux", MachineHere());
      const std::string packed = *Gzip(build->bytes);
      start->stream->Write(StageAnswer(build->sha256, packed.size()));
      start->stream->Write(is_cut ? packed.substr(0, packed.size() / 2) : packed);
      if (is_cut) loop_->Post([&] { start->stream.reset(); });
    };
    handlers.on_closed = [](const Status&) {};
    start->stream->Start(std::move(handlers));
    EXPECT_TRUE(RunUntil(*loop_, [&] { return has_ended; }));
    return outcome;
  }

  static std::string MachineHere() { return *MachineOfElf(*ReadFile("/proc/self/exe")); }
  std::vector<std::string> Files(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::unique_ptr<Loop> loop_;
  AgentBuilds builds_;
  TempFolder folder_;
  bool has_shell_ = true;
};

TEST_P(BootstrapShellTest, TheFirstTimeTheAgentIsCopiedAndThenItIsThere) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  BootstrapRequest request{builds_.stage_id(), folder_ / "it's a cache", "", {"--spoken", "a b"}};
  const Outcome first = Run(request);
  EXPECT_TRUE(first.how.ok()) << first.how.ToString() << first.text;
  EXPECT_NE(first.text.find("HVDRAY-STAGE/1 Linux"), std::string::npos) << first.text;
  EXPECT_TRUE(first.text.ends_with("--spoken a b\n")) << first.text;
  EXPECT_EQ(Files(request.folder), std::vector<std::string>{"agent-" + builds_.stage_id()});
  struct stat info {};
  ASSERT_EQ(::stat((request.folder + "/agent-" + builds_.stage_id()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);

  const Outcome second = Run(request);
  EXPECT_EQ(second.text, "--spoken a b\n") << "one round trip";
}

TEST_P(BootstrapShellTest, AnUploadThatIsCutLeavesNothing) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const BootstrapRequest request{builds_.stage_id(), folder_ / "cache", "", {}};
  const Outcome outcome = Run(request, /*is_cut=*/true);
  EXPECT_FALSE(outcome.how.ok());
  EXPECT_TRUE(Files(request.folder).empty());
}

TEST_P(BootstrapShellTest, AFolderThatCannotBeMadeIsSaid) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const Outcome outcome = Run({builds_.stage_id(), "/proc/none", "", {}});
  EXPECT_NE(outcome.text.find("HVDRAY-FAILED/1 mkdir /proc/none: "), std::string::npos)
      << outcome.text;
  EXPECT_FALSE(outcome.how.ok());
}

TEST_P(BootstrapShellTest, WithoutAHomeThatIsSaid) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const std::string before = "unset XDG_CACHE_HOME; HOME=/nowhere; export HOME; ";
  const Outcome outcome = Run({builds_.stage_id(), "", "", {}}, false, before);
  EXPECT_NE(outcome.text.find("HVDRAY-FAILED/1 no home folder (/nowhere)"), std::string::npos)
      << outcome.text;
}

TEST_P(BootstrapShellTest, AnAgentThatIsInstalledIsTakenAsItIs) {
  if (!has_shell_) GTEST_SKIP() << GetParam() << " is not installed";
  const Outcome outcome = Run({builds_.stage_id(), folder_ / "cache", "/bin/echo", {"hello"}});
  EXPECT_EQ(outcome.text, "hello\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

INSTANTIATE_TEST_SUITE_P(Shells, BootstrapShellTest,
                         testing::Values("/bin/sh", "/bin/bash", "/bin/dash"),
                         [](const auto& suite) { return std::string(suite.param).substr(5); });

}  // namespace
}  // namespace hvdray
