// SPDX-License-Identifier: Apache-2.0
#include "agent/connection_breaker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>

#include "tests/fakes/test_sockets.h"
#include "tests/unit/agent/mesh_gang.h"

namespace hvdray {
namespace {

constexpr uid_t kNobody = 65534;

// What an agent may be denied.
struct Rights {
  uid_t user = 0;       // becomes this one; 0: stays who it is
  int getfd_error = 0;  // pidfd_getfd gives this by a seccomp filter, as in some containers
};

bool DenyGetfd(int error) {
  constexpr uint32_t kPidfdGetfd = 438;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPidfdGetfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs `tell` in a process with those rights only and returns what it says.
std::string RunWith(const Rights& rights, const std::function<std::string()>& tell) {
  Pipe pipe = MakePipe().value();
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::string text = "no such rights";
    bool has_rights = true;
    if (rights.user != 0) {
      has_rights =
          ::setgroups(0, nullptr) == 0 && ::setgid(rights.user) == 0 && ::setuid(rights.user) == 0;
      // A program that this user had started itself would be so.
      ::prctl(PR_SET_DUMPABLE, 1);
    }
    if (rights.getfd_error != 0) has_rights = has_rights && DenyGetfd(rights.getfd_error);
    if (has_rights) text = tell();
    (void)WriteAll(pipe.write_end.get(), text);
    ::_exit(0);
  }
  pipe.write_end.Reset();
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(pipe.read_end.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  ::waitpid(pid, nullptr, 0);
  return text;
}

// Three survivors in a circle, each waiting for one that is not the dead one: nobody tells them.
constexpr int kSurvivors = 3;

struct Lost {
  explicit Lost(MemberKind kind = MemberKind::kPlain, int family = AF_INET)
      : gang(kSurvivors + 1, kind, family) {
    for (int rank = 0; rank < kSurvivors; ++rank) gang.WaitFor(rank, (rank + 1) % kSurvivors);
    gang.Kill(kSurvivors);
  }
  std::string Waiting() {
    int waiting = 0;
    for (int rank = 0; rank < kSurvivors; ++rank) waiting += gang.IsWaiting(rank) ? 1 : 0;
    return fmt::format("waiting {}", waiting);
  }
  // How each wait ended: errno, 0 for an end of file.
  std::string Freed() {
    std::string text;
    for (int rank = 0; rank < kSurvivors; ++rank) {
      text += (rank > 0 ? ", " : "") + gang.Freed(rank);
    }
    return text;
  }
  // Connections that are nobody's business. The echo of the last one led to the dead member.
  std::string Others() {
    std::string text;
    for (int rank = 0; rank < kSurvivors; ++rank) {
      if (rank + 1 < kSurvivors && !gang.EchoWorks(rank)) text += fmt::format("echo {} ", rank);
      if (!gang.RelayWorks(rank)) text += fmt::format("relay {} ", rank);
      if (!gang.ListenerWorks(rank)) text += fmt::format("listener {} ", rank);
    }
    return text.empty() ? "untouched" : "broken: " + text;
  }
  MeshGang gang;
};

TEST(ConnectionBreakerTest, SurvivorsThatWaitForEachOtherAreFreed) {
  Lost lost;
  EXPECT_EQ(lost.Waiting(), "waiting 3") << "the loss alone frees nobody";
  ConnectionBreaker breaker;
  const ConnectionBreaker::Outcome result =
      breaker.Break(lost.gang.Living(), lost.gang.addresses());
  EXPECT_EQ(lost.Freed(), "freed 0, freed 0, freed 0");
  EXPECT_EQ(result.shut, 6U) << "both ends of three connections";
  EXPECT_EQ(result.destroyed, 0U);
  EXPECT_EQ(result.refused, 0U) << result.why;
  EXPECT_EQ(result.hint, "");
  EXPECT_GT(result.took, Duration::zero());
  EXPECT_LT(result.took, std::chrono::minutes(1));
}

TEST(ConnectionBreakerTest, ARecvThatBlocksReturns) {
  MeshGang gang(3);
  gang.BlockInRecv(0, 1);
  gang.BlockInRecv(1, 0);
  gang.Kill(2);
  ConnectionBreaker breaker;
  EXPECT_EQ(breaker.Break(gang.Living(), gang.addresses()).shut, 2U);
  EXPECT_EQ(gang.Freed(0), "freed 0");
  EXPECT_EQ(gang.Freed(1), "freed 0");
}

TEST(ConnectionBreakerTest, EveryOtherConnectionStaysAndWorks) {
  Lost lost;
  ASSERT_EQ(lost.Others(), "untouched");
  ConnectionBreaker breaker;
  EXPECT_EQ(breaker.Break(lost.gang.Living(), lost.gang.addresses()).shut, 6U);
  EXPECT_EQ(lost.Freed(), "freed 0, freed 0, freed 0");
  EXPECT_EQ(lost.Others(), "untouched");
}

TEST(ConnectionBreakerTest, WhoWaitsForAPeerToConnectIsToldAsWell) {
  const TestListener mesh, other;
  const auto at = [](const TestListener& listener) {
    return TcpAddress::FromIpv4(htonl(INADDR_LOOPBACK), listener.port());
  };
  ConnectionBreaker breaker;
  const std::vector<TcpAddress> listening = {at(mesh)};
  const std::vector<LivingWorker> self = {{.pid = ::getpid()}};
  EXPECT_EQ(breaker.Break(self, {}, listening).shut, 1U);
  UniqueFd client;
  EXPECT_EQ(ConnectTo(mesh.port(), &client), ECONNREFUSED);
  EXPECT_EQ(ConnectTo(other.port(), &client), 0) << "that one was nobody's business";
}

TEST(ConnectionBreakerTest, AListenerWhoseMeshIsCompleteIsLeftAlone) {
  const TestListener listener;
  const std::vector<TcpAddress> addresses = {
      TcpAddress::FromIpv4(htonl(INADDR_LOOPBACK), listener.port())};
  ConnectionBreaker breaker;
  EXPECT_EQ(breaker.Break(std::vector<LivingWorker>{{.pid = ::getpid()}}, addresses).shut, 0U);
  UniqueFd client;
  EXPECT_EQ(ConnectTo(listener.port(), &client), 0);
}

TEST(ConnectionBreakerTest, AConnectionThatIsNotThereYetIsGivenUp) {
  const TestListener full(0);
  const std::vector<TcpAddress> addresses = {
      TcpAddress::FromIpv4(htonl(INADDR_LOOPBACK), full.port())};
  // The kernel lets one or two in; after that nobody gets an answer.
  std::vector<UniqueFd> sockets;
  const sockaddr_in peer = Ipv4("127.0.0.1", full.port());
  bool is_pending = false;
  while (!is_pending && sockets.size() < 8) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(sockets.back().get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer);
    tcp_info info{};
    socklen_t size = sizeof info;
    ::getsockopt(sockets.back().get(), IPPROTO_TCP, TCP_INFO, &info, &size);
    is_pending = info.tcpi_state == TCP_SYN_SENT;
  }
  ASSERT_TRUE(is_pending);
  ConnectionBreaker breaker;
  breaker.Break(std::vector<LivingWorker>{{.pid = ::getpid()}}, addresses);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(sockets.back().get(), SOL_SOCKET, SO_ERROR, &error, &size);
  EXPECT_EQ(error, ECONNRESET);
}

TEST(ConnectionBreakerTest, ASecondTimeFindsNothing) {
  Lost lost;
  ConnectionBreaker breaker;
  EXPECT_EQ(breaker.Break(lost.gang.Living(), lost.gang.addresses()).shut, 6U);
  const ConnectionBreaker::Outcome again = breaker.Break(lost.gang.Living(), lost.gang.addresses());
  EXPECT_EQ(again.shut, 0U);
  EXPECT_EQ(again.refused, 0U) << again.why;
}

TEST(ConnectionBreakerTest, WithoutAddressesNothingIsTouched) {
  Lost lost;
  ConnectionBreaker breaker;
  const ConnectionBreaker::Outcome result = breaker.Break(lost.gang.Living(), {});
  EXPECT_EQ(result.shut + result.destroyed + result.refused, 0U);
  EXPECT_EQ(lost.Waiting(), "waiting 3");
}

TEST(ConnectionBreakerTest, AddressesOfAnotherGangHaveNoEffect) {
  Lost lost;
  MeshGang others(2);
  ConnectionBreaker breaker;
  EXPECT_EQ(breaker.Break(lost.gang.Living(), others.addresses()).shut, 0U);
  EXPECT_EQ(lost.Waiting(), "waiting 3");
}

TEST(ConnectionBreakerTest, AParkedWorkerIsLeftAlone) {
  MeshGang gang(4);
  ConnectionBreaker breaker;
  std::vector<LivingWorker> living = gang.Living();
  for (LivingWorker& worker : living) worker.is_parked = true;
  EXPECT_EQ(breaker.Break(living, gang.addresses()).shut, 0U);
  living[0].is_parked = false;
  EXPECT_EQ(breaker.Break(living, gang.addresses()).shut, 3U) << "its own ends only";
}

TEST(ConnectionBreakerTest, AWorkerThatIsOnlyAShellIsLookedBehind) {
  Lost lost(MemberKind::kBehindShell);
  EXPECT_EQ(lost.Waiting(), "waiting 3");
  ConnectionBreaker breaker;
  const ConnectionBreaker::Outcome result =
      breaker.Break(lost.gang.Living(), lost.gang.addresses());
  EXPECT_EQ(result.shut, 6U);
  EXPECT_EQ(result.refused, 0U) << result.why;
  EXPECT_EQ(lost.Freed(), "freed 0, freed 0, freed 0");
  EXPECT_EQ(lost.Others(), "untouched");
}

TEST(ConnectionBreakerTest, AMeshOverIpv6IsFreed) {
  const UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.is_valid()) GTEST_SKIP() << "this kernel has no IPv6";
  Lost lost(MemberKind::kPlain, AF_INET6);
  ConnectionBreaker breaker;
  EXPECT_EQ(breaker.Break(lost.gang.Living(), lost.gang.addresses()).shut, 6U);
  EXPECT_EQ(lost.Freed(), "freed 0, freed 0, freed 0");
}

TEST(ConnectionBreakerTest, AWorkerThatEndsMeanwhileIsNoRefusal) {
  MeshGang gang(3);
  std::vector<LivingWorker> living = gang.Living();
  ::kill(living[2].pid, SIGKILL);
  siginfo_t info{};
  // Dead, and not reaped: its descriptors can't be listed by everybody.
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(living[2].pid), &info, WEXITED | WNOWAIT), 0);
  ConnectionBreaker breaker;
  const ConnectionBreaker::Outcome result = breaker.Break(living, gang.addresses());
  EXPECT_EQ(result.refused, 0U) << result.why;
  EXPECT_EQ(result.shut, 2U);
}

class RightsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "only root can give rights away";
  }
  // A loss and what a breaker with these rights makes of it.
  static std::string FreeWith(const Rights& rights, MemberKind kind = MemberKind::kPlain) {
    return RunWith(rights, [kind] {
      Lost lost(kind);
      ConnectionBreaker breaker;
      const ConnectionBreaker::Outcome result =
          breaker.Break(lost.gang.Living(), lost.gang.addresses());
      std::string text = fmt::format("shut {}, destroyed {}, refused {}", result.shut,
                                     result.destroyed >= 3   ? "all"
                                     : result.destroyed == 0 ? "none"
                                                             : "some",
                                     result.refused);
      text += result.refused > 0 ? "; " + lost.Waiting() : "; " + lost.Freed();
      text += "; others " + lost.Others();
      if (!result.why.empty()) text += "\n" + result.why + "\n" + result.hint;
      return text;
    });
  }
};

TEST_F(RightsTest, AnUnprivilegedUserFreesItsOwnWorkers) {
  EXPECT_EQ(FreeWith({.user = kNobody}),
            "shut 6, destroyed none, refused 0; freed 0, freed 0, freed 0; others untouched");
}

TEST_F(RightsTest, RootDestroysWhatItMayNotDuplicate) {
  for (const int error : {EPERM, ENOSYS}) {
    // The near end is aborted, the far one is reset.
    std::string text = FreeWith({.getfd_error = error});
    const std::string reset = fmt::format("freed {}", ECONNRESET);
    const std::string aborted = fmt::format("freed {}", ECONNABORTED);
    for (size_t at = 0; (at = text.find(reset, at)) != std::string::npos;) {
      text.replace(at, reset.size(), aborted);
    }
    EXPECT_EQ(text, fmt::format("shut 0, destroyed all, refused 0; {0}, {0}, {0}; others untouched",
                                aborted));
  }
}

TEST_F(RightsTest, WhoMayDoNeitherSaysWhatWouldHelp) {
  const std::string text = FreeWith({.user = kNobody, .getfd_error = EPERM});
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "shut 0, destroyed none, refused 3; waiting 3; others untouched");
  EXPECT_NE(
      text.find("pidfd_getfd: Operation not permitted; SOCK_DESTROY: Operation not permitted"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("ptrace_scope"), std::string::npos) << text;
  EXPECT_NE(text.find("CAP_NET_ADMIN"), std::string::npos) << text;
}

TEST_F(RightsTest, AnOldKernelIsNamed) {
  const std::string text = FreeWith({.user = kNobody, .getfd_error = ENOSYS});
  EXPECT_NE(text.find("Linux 5.6"), std::string::npos) << text;
}

TEST_F(RightsTest, AWorkerThatLetsNobodyLookIsARefusal) {
  const std::string text = FreeWith({.user = kNobody}, MemberKind::kNotDumpable);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "shut 0, destroyed none, refused 3; waiting 3; others untouched");
  EXPECT_NE(text.find("/fd: Permission denied"), std::string::npos) << text;
}

// A network namespace of this process, in which 127.0.0.1 works.
bool EnterNewNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

TEST_F(RightsTest, WorkersInAnotherNetworkNamespaceAreFreed) {
  const std::string text = RunWith({}, [] {
    const UniqueFd ours(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!EnterNewNetwork()) return std::string("no namespace");
    Lost lost;
    if (::setns(ours.get(), CLONE_NEWNET) != 0) return std::string("no way back");
    ConnectionBreaker breaker;
    const ConnectionBreaker::Outcome result =
        breaker.Break(lost.gang.Living(), lost.gang.addresses());
    return fmt::format("shut {}, refused {}; {}", result.shut, result.refused, lost.Freed());
  });
  EXPECT_EQ(text, "shut 6, refused 0; freed 0, freed 0, freed 0");
}

TEST_F(RightsTest, RootMayLookIntoWorkersThatAreNotDumpable) {
  EXPECT_EQ(FreeWith({}, MemberKind::kNotDumpable),
            "shut 6, destroyed none, refused 0; freed 0, freed 0, freed 0; others untouched");
}

}  // namespace
}  // namespace hvdray
