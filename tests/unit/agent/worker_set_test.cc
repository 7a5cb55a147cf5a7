// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <functional>
#include <map>
#include <set>

#include "base/fd.h"
#include "base/file.h"
#include "tests/fakes/temp_directory.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {
namespace {

using wire::ExecStage;
using wire::ExitStatus;

class WorkerSetTest : public ::testing::Test, private WorkerSet::Owner {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    workers_ = std::make_unique<WorkerSet>(*loop_, static_cast<WorkerSet::Owner&>(*this));
  }

  void OnStarted(int rank, pid_t pid) override {
    EXPECT_FALSE(exits_.contains(rank));
    EXPECT_TRUE(started_.emplace(rank, pid).second);
  }
  void OnExited(int rank, const ExitStatus& status) override {
    EXPECT_TRUE(exits_.emplace(rank, status).second);
  }

  ExecFailure Start(int rank, const std::vector<std::string>& command,
                    const std::string& directory = "") {
    const ExecPlan plan = PlanExec(command, "/usr/bin:/bin", directory);
    SpawnRequest request;
    request.plan = &plan;
    request.shared_environment = environment_;
    if (plan.paths.empty()) return {ExecStage::kExec, plan.error};
    SpawnedProcess process;
    const ExecFailure failure = Spawn(request, process);
    if (failure == ExecFailure()) pipes_[rank] = workers_->Take(rank, std::move(process));
    return failure;
  }

  ExitStatus Run(const std::vector<std::string>& command, const std::string& directory = "") {
    const int rank = next_rank_++;
    const ExecFailure failure = Start(rank, command, directory);
    if (failure.stage != ExecStage::kNone) {
      ExitStatus status;
      status.stage = failure.stage;
      status.error = failure.error;
      return status;
    }
    EXPECT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(rank); }));
    return exits_[rank];
  }

  std::string ReadAll(int rank) {
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t n = ::read(pipes_[rank].stdout_pipe.get(), buffer, sizeof buffer);
      if (n <= 0) return text;
      text.append(buffer, static_cast<size_t>(n));
    }
  }

  void WaitUntilReady(int rank) {
    std::string text;
    EXPECT_TRUE(WaitFor(*loop_, [&] { return (text += ReadAll(rank)) == "ready\n"; }));
  }

  std::string mark_ = MakeMark();
  std::vector<std::string> environment_ = {"PATH=/usr/bin:/bin", mark_};
  std::unique_ptr<Loop> loop_;
  std::map<int, pid_t> started_;
  std::map<int, ExitStatus> exits_;
  std::map<int, WorkerSet::Pipes> pipes_;
  std::unique_ptr<WorkerSet> workers_;
  int next_rank_ = 0;
};

TEST_F(WorkerSetTest, ExitCodeIsTheWorkersOwn) {
  for (const int code : {0, 1, 7, 125, 126, 127, 255}) {
    const ExitStatus status = Run(ProbeCommand({"exit", std::to_string(code)}));
    EXPECT_EQ(status.exit_code, code);
    EXPECT_EQ(status.signal, 0);
    EXPECT_EQ(status.stage, ExecStage::kNone);
  }
  EXPECT_EQ(started_.size(), 7U);
}

TEST_F(WorkerSetTest, DeathBySignalTellsTheSignal) {
  for (const int signo : {SIGTERM, SIGINT, SIGHUP, SIGKILL, SIGPIPE, SIGUSR1}) {
    const ExitStatus status = Run(ProbeCommand({"raise", std::to_string(signo)}));
    EXPECT_EQ(status.signal, signo);
    EXPECT_EQ(status.exit_code, 0);
    EXPECT_FALSE(status.has_core);
  }
}

TEST(DecodeExitTest, CoreIsToldFromAPlainDeath) {
  EXPECT_EQ(DecodeExit(CLD_DUMPED, SIGSEGV), (ExitStatus{.signal = SIGSEGV, .has_core = true}));
  EXPECT_EQ(DecodeExit(CLD_KILLED, SIGSEGV), (ExitStatus{.signal = SIGSEGV}));
  EXPECT_EQ(DecodeExit(CLD_EXITED, 3), (ExitStatus{.exit_code = 3}));
}

TEST_F(WorkerSetTest, WorkerStartsWithThreeDescriptorsAndDefaultSignals) {
  const UniqueFd inheritable(::open("/dev/null", O_RDONLY));  // deliberately without O_CLOEXEC
  EXPECT_EQ(Run(ProbeCommand({"hygiene"})).exit_code, 0);
}

TEST_F(WorkerSetTest, WorkerStartsCleanWhileTheAgentBlocksAndIgnoresSignals) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  EXPECT_EQ(Run(ProbeCommand({"hygiene"})).exit_code, 0);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(WorkerSetTest, BadProgramsFailWithTheReasonOfExecve) {
  const TempDirectory directory;
  const auto make = [&](const std::string& name, ByteView text, mode_t mode) {
    EXPECT_TRUE(WriteFileAtomically(directory / name, text).ok());
    EXPECT_EQ(::chmod((directory / name).c_str(), mode), 0);
    return directory / name;
  };
  struct Case {
    std::string program;
    int error;
  };
  const std::vector<Case> cases = {
      {make("plain", "#!/bin/sh\n", 0644), EACCES},
      {directory.path(), EACCES},
      {make("interpreter", "#!/no/such/interpreter\n", 0755), ELIBACC},
      {make("folder_as_interpreter", "#!/tmp\n", 0755), EACCES},
      {directory / "missing", ENOENT},
      {directory / "plain/below", ENOTDIR},
      {"no-such-command", ENOENT},
  };
  for (const Case& c : cases) {
    const ExitStatus status = Run({c.program});
    EXPECT_EQ(status.stage, ExecStage::kExec) << c.program;
    EXPECT_EQ(status.error, c.error) << c.program;
  }
  EXPECT_TRUE(started_.empty());
}

TEST_F(WorkerSetTest, ScriptWithoutInterpreterIsRunByTheShell) {
  const TempDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory / "script", "exit $1\n").ok());
  ASSERT_EQ(::chmod((directory / "script").c_str(), 0755), 0);
  EXPECT_EQ(Run({directory / "script", "9"}).exit_code, 9);
}

TEST_F(WorkerSetTest, UnreachableWorkingDirectoryIsNamedByItsStage) {
  const ExitStatus status = Run({"true"}, "/no/such/folder");
  EXPECT_EQ(status.stage, ExecStage::kDirectory);
  EXPECT_EQ(status.error, ENOENT);
}

TEST_F(WorkerSetTest, RelativeProgramIsFoundFromTheWorkingDirectory) {
  const TempDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory / "tool", "#!/bin/sh\nexit 4\n").ok());
  ASSERT_EQ(::chmod((directory / "tool").c_str(), 0755), 0);
  EXPECT_EQ(Run({"./tool"}, directory.path()).exit_code, 4);
}

TEST_F(WorkerSetTest, ArgumentsTooLongAreARefusalOfExecve) {
  const ExitStatus status = Run({"true", std::string(size_t{200} << 10, 'x')});
  EXPECT_EQ(status.stage, ExecStage::kExec);
  EXPECT_EQ(status.error, E2BIG);
}

TEST_F(WorkerSetTest, WorkerSeesExactlyTheEnvironmentItWasGiven) {
  environment_ = {"A=1", "B=two words", "C="};
  ASSERT_EQ(Run(ProbeCommand({"environment"})).exit_code, 0);
  std::string text = ReadAll(0);
  EXPECT_EQ(text, "A=1\nB=two words\nC=\n");
}

TEST_F(WorkerSetTest, SignalReachesTheWholeGroup) {
  ASSERT_EQ(Start(0, ProbeCommand({"stubborn"})).stage, ExecStage::kNone);
  WaitUntilReady(0);
  EXPECT_EQ(FindMarked(mark_).size(), 2U);
  workers_->SignalGroup(0, SIGKILL);
  EXPECT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(0); }));
  EXPECT_EQ(exits_[0].signal, SIGKILL);
  EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
}

TEST_F(WorkerSetTest, GroupOutlivesItsLeaderAndCanStillBeSignalled) {
  // The orphan becomes our child, so its group exists until it is reaped here.
  ASSERT_EQ(Start(0, {"sh", "-c", "sleep 1000 & exit 3"}).stage, ExecStage::kNone);
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(0); }));
  EXPECT_EQ(exits_[0].exit_code, 3);
  EXPECT_TRUE(workers_->HasLivingGroup());
  workers_->SignalGroup(0, SIGKILL);
  EXPECT_TRUE(WaitFor(*loop_, [&] {
    ::waitpid(-1, nullptr, WNOHANG);
    return !workers_->HasLivingGroup();
  }));
  workers_->SignalGroup(0, SIGKILL);  // nobody is there: no effect
}

TEST_F(WorkerSetTest, UnknownRankIsNoTarget) {
  workers_->SignalGroup(12, SIGKILL);
  workers_->SignalAllGroups(SIGKILL);
  EXPECT_FALSE(workers_->HasLivingGroup());
}

TEST_F(WorkerSetTest, DestructionLeavesNoProcess) {
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(Start(rank, ProbeCommand({"stubborn"})).stage, ExecStage::kNone);
    WaitUntilReady(rank);
  }
  EXPECT_EQ(FindMarked(mark_).size(), 8U);
  workers_.reset();
  EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
}

TEST_F(WorkerSetTest, ThousandAndMoreAtOnceAllEndWithTheirOwnCode) {
#ifdef __SANITIZE_ADDRESS__  // half a minute of copied page tables; ./check runs this without it,
                             // too
  constexpr int kWorkers = 65;
#else
  constexpr int kWorkers = 1025;
#endif
  ASSERT_TRUE(RaiseOpenFileLimit(kWorkers * 5 + 100).ok());
  for (int rank = 0; rank < kWorkers; ++rank) {
    const std::string code = std::to_string(rank % 251);
    ASSERT_EQ(Start(rank, {"sh", "-c", "exit " + code}).stage, ExecStage::kNone) << rank;
  }
  EXPECT_EQ(workers_->live_count(), size_t{kWorkers});
  ASSERT_TRUE(WaitFor(*loop_, [&] { return exits_.size() == kWorkers; }));
  for (const auto& [rank, status] : exits_) EXPECT_EQ(status.exit_code, rank % 251);
  EXPECT_EQ(started_.size(), size_t{kWorkers});
  EXPECT_EQ(workers_->live_count(), 0U);
}

TEST_F(WorkerSetTest, NoDescriptorIsLeftOfWorkersThatEnded) {
  const auto lowest_free = [] { return UniqueFd(::open("/dev/null", O_RDONLY)).get(); };
  Run({"true"});
  pipes_.clear();
  const int before = lowest_free();
  for (int i = 0; i < 20; ++i) {
    Run({"true"});
    Run({"no-such-command"});
    Run({"/tmp"});
  }
  pipes_.clear();
  EXPECT_EQ(lowest_free(), before);
}

// From now on the system call `number` of this process and its children ends as `action` says,
// where its first argument is at least `least`. Returns the descriptor on which those that hang are
// told; -1: none, or the filter is refused.
int Filter(uint32_t number, uint32_t action, uint32_t least = 0) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, least, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const bool hangs = action == SECCOMP_RET_USER_NOTIF;
  const auto flags = hangs ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0UL;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
}

std::set<std::string> Descriptors(pid_t pid) {
  std::set<std::string> numbers;
  const std::string path = "/proc/" + std::to_string(pid) + "/fd";
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) return {"unreadable"};
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.') numbers.insert(entry->d_name);
  }
  ::closedir(directory);
  return numbers;
}

// Runs `body` in a process of its own, which keeps the filters that it sets; what it returns.
int InAnotherProcess(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST_F(WorkerSetTest, AWorkerThatHangsOnItsWayIntoItsDirectoryHoldsNothingOfOurs) {
  constexpr int kRefused = 77;
  const UniqueFd ours(::open("/dev/null", O_RDONLY));  // nor is close-on-exec what closes it
  const int code = InAnotherProcess([] {
    const int hanging = Filter(SYS_chdir, SECCOMP_RET_USER_NOTIF);
    if (hanging < 0) return kRefused;
    const ExecPlan plan = PlanExec({"true"}, "/usr/bin:/bin", "/tmp");
    SpawnRequest request;
    request.plan = &plan;
    SpawnedProcess child;
    if (Spawn(request, child).stage != ExecStage::kNone) return 2;
    pollfd in_chdir{hanging, POLLIN, 0};
    if (::poll(&in_chdir, 1, 60'000) != 1) return 3;
    const bool is_clean = Descriptors(child.pid) == std::set<std::string>{"0", "1", "2", "3"};
    ::kill(child.pid, SIGKILL);
    return is_clean ? 0 : 1;
  });
  if (code == kRefused) GTEST_SKIP() << "no seccomp notifications here";
  EXPECT_EQ(code, 0);
}

TEST_F(WorkerSetTest, AKernelWithoutCloseRangeClosesWhatIsOpenAndNotWhatMayBe) {
  const UniqueFd ours(::open("/dev/null", O_RDONLY));
  const int code = InAnotherProcess([this] {
    // A limit of 2^30, as some hosts have it, would be as many closes.
    if (!RaiseOpenFileLimit(4096).ok()) return 3;
    Filter(SYS_close_range, SECCOMP_RET_ERRNO | ENOSYS);
    Filter(SYS_close, SECCOMP_RET_KILL_PROCESS, /*least=*/2000);
    Start(0, {"sh", "-c", "echo /proc/self/fd/*"});  // no pipe: dash would close(-1) for that
    if (!WaitFor(*loop_, [&] { return exits_.contains(0); })) return 2;
    // The shell has the directory open besides.
    return ReadAll(0) == "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n" ? 0
                                                                                             : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(WorkerSetTest, ExhaustedDescriptorsFailTheStartAndNothingElse) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs descriptors for its own checks";
#endif
  // Fails the n-th descriptor of a start, for every n.
  std::vector<UniqueFd> ballast;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int top = UniqueFd(::open("/dev/null", O_RDONLY)).get();
  int failures = 0;
  for (int allowed = 0; allowed < 16; ++allowed) {
    const rlimit small{static_cast<rlim_t>(top + allowed), limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
    const ExecFailure failure = Start(1000 + allowed, {"/bin/true"});
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (failure.stage != ExecStage::kNone) {
      ++failures;
      EXPECT_TRUE(failure.error == EMFILE || failure.stage == ExecStage::kFork) << allowed;
      continue;
    }
    EXPECT_TRUE(WaitFor(*loop_, [&] { return exits_.contains(1000 + allowed); }));
    pipes_.clear();
  }
  EXPECT_GE(failures, 6);
  EXPECT_LT(failures, 16);
  EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
}

}  // namespace
}  // namespace hvdray
