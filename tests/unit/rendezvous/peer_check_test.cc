// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/peer_check.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace hvdray {
namespace {

constexpr uid_t kNobody = 65534;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return end;
}

class PeerCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    listener_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    local_ = Loopback(0);
    socklen_t size = sizeof local_;
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&local_), size), 0);
    ASSERT_EQ(::listen(listener_.get(), 8), 0);
    ASSERT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&local_), &size), 0);
  }

  UniqueFd Connect(int family = AF_INET) const {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (family == AF_INET) {
      EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&local_), sizeof local_), 0);
      return fd;
    }
    sockaddr_in6 mapped{};
    mapped.sin6_family = AF_INET6;
    mapped.sin6_port = local_.sin_port;
    ::inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&mapped), sizeof mapped) != 0) {
      fd.Reset();
    }
    return fd;
  }

  /// Keeps the server's end in accepted_, the peer's address in remote_.
  void Accept() {
    socklen_t size = sizeof remote_;
    accepted_.Reset(::accept(listener_.get(), reinterpret_cast<sockaddr*>(&remote_), &size));
    ASSERT_TRUE(accepted_.is_valid());
  }

  /// The verdict of the kernel, which that of /proc must equal.
  PeerVerdict Check(uid_t user) const {
    PeerChecker checker(user);
    const PeerVerdict verdict = checker.Check(remote_, local_);
    EXPECT_EQ(checker.CheckByProc(remote_, local_), verdict);
    return verdict;
  }

  /// A process of user `uid` that connects, and stays until `stay` is closed. Needs root.
  pid_t ConnectAs(uid_t uid, const Pipe& stay) const {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::close(stay.write_end.get());
    const int fd =
        ::setgid(uid) == 0 && ::setuid(uid) == 0 ? ::socket(AF_INET, SOCK_STREAM, 0) : -1;
    const bool is_connected =
        fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&local_), sizeof local_) == 0;
    char byte = 0;
    (void)!::read(stay.read_end.get(), &byte, 1);
    ::_exit(is_connected ? 0 : 1);
  }

  UniqueFd listener_, accepted_;
  sockaddr_in local_{}, remote_{};
};

TEST_F(PeerCheckTest, AcceptsTheOwnUser) {
  const UniqueFd client = Connect();
  Accept();
  EXPECT_EQ(Check(::getuid()), PeerVerdict::kAccepted);
}

TEST_F(PeerCheckTest, AcceptsAClientThatReachesUsByAMappedAddress) {
  const UniqueFd client = Connect(AF_INET6);
  if (!client.is_valid()) GTEST_SKIP() << "this kernel has no IPv6";
  Accept();
  EXPECT_EQ(Check(::getuid()), PeerVerdict::kAccepted);
}

TEST_F(PeerCheckTest, RefusesAnotherUserThanTheJobs) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  Pipe stay = MakePipe().value();
  const pid_t child = ConnectAs(kNobody, stay);
  ASSERT_GT(child, 0);
  Accept();
  EXPECT_EQ(Check(/*user=*/1000), PeerVerdict::kOtherUser);
  EXPECT_EQ(Check(/*user=*/0), PeerVerdict::kOtherUser) << "a job of root's trusts root alone";
  EXPECT_EQ(Check(kNobody), PeerVerdict::kAccepted);
  stay.write_end.Reset();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PeerCheckTest, AcceptsRootForTheJobOfAnybody) {
  if (::getuid() != 0) GTEST_SKIP() << "needs a socket of root's";
  const UniqueFd client = Connect();
  Accept();
  EXPECT_EQ(Check(/*user=*/1000), PeerVerdict::kAccepted);
}

TEST_F(PeerCheckTest, RefusesASocketThatItsOwnerHasClosed) {
  UniqueFd client = Connect();
  Accept();
  client.Reset();  // in FIN_WAIT2 from here
  EXPECT_EQ(Check(::getuid()), PeerVerdict::kGone);
}

TEST_F(PeerCheckTest, DoesNotTakeASocketInTimeWaitForRoots) {
  UniqueFd client = Connect();
  Accept();
  client.Reset();
  accepted_.Reset();  // the client's end is in TIME_WAIT: uid 0, inode 0
  EXPECT_EQ(Check(::getuid()), PeerVerdict::kGone);
  EXPECT_EQ(Check(/*user=*/0), PeerVerdict::kGone);
}

TEST_F(PeerCheckTest, RefusesASocketThatIsReset) {
  UniqueFd client = Connect();
  Accept();
  const linger reset{1, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client.Reset();
  EXPECT_EQ(Check(::getuid()), PeerVerdict::kGone);
}

TEST_F(PeerCheckTest, DoesNotTakeAListenerOfThatPortForThePeer) {
  // The peer's port is our own listener's: the kernel may answer with it for want of a connection.
  remote_ = local_;
  PeerChecker checker(::getuid());
  EXPECT_EQ(checker.Check(local_, Loopback(1)), PeerVerdict::kGone);
}

TEST_F(PeerCheckTest, SaysNothingAboutOtherMachines) {
  PeerChecker checker(::getuid());
  sockaddr_in far = Loopback(4000);
  far.sin_addr.s_addr = htonl(0x0a000001);
  EXPECT_EQ(checker.Check(far, local_), PeerVerdict::kNotLocal);
  EXPECT_EQ(checker.Check(Loopback(4000), far), PeerVerdict::kNotLocal);
  EXPECT_EQ(checker.CheckByProc(far, local_), PeerVerdict::kNotLocal);
}

TEST_F(PeerCheckTest, AnswersThousandsOfQuestionsOverOneSocket) {
  const UniqueFd client = Connect();
  Accept();
  PeerChecker checker(::getuid());
  for (int i = 0; i < 2000; ++i) {
    // A wrong one between keeps answers and questions from slipping out of step unseen.
    ASSERT_EQ(checker.Check(Loopback(1), local_), PeerVerdict::kGone) << i;
    ASSERT_EQ(checker.Check(remote_, local_), PeerVerdict::kAccepted) << i;
  }
}

constexpr std::string_view kProcText =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 "
    "1 0 100 0 0 10 0\n"
    "   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "4711 1 0 20 4 30 10 -1\n";

TEST(FindInProcNetTcpTest, FindsTheOneConnection) {
  const auto owner = FindInProcNetTcp(kProcText, Loopback(50000), Loopback(8080));
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->uid, 1000U);
  EXPECT_EQ(owner->inode, 4711U);
  EXPECT_FALSE(FindInProcNetTcp(kProcText, Loopback(8080), Loopback(50000)).has_value());
  EXPECT_FALSE(FindInProcNetTcp(kProcText, Loopback(50001), Loopback(8080)).has_value());
}

TEST(FindInProcNetTcpTest, FindsMappedAddressesOfTcp6) {
  const std::string text =
      "   0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:1F90 01 "
      "00000000:00000000 00:00000000 00000000    33        0 815 1 0 20 4 30 10 -1\n";
  const auto owner = FindInProcNetTcp(text, Loopback(50000), Loopback(8080));
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->uid, 33U);
}

TEST(FindInProcNetTcpTest, SkipsLinesThatAreCutOrMalformed) {
  for (size_t size = 0; size < kProcText.size(); ++size) {
    const auto owner = FindInProcNetTcp(kProcText.substr(0, size), Loopback(50000), Loopback(8080));
    // A number may be cut short, but then uid and inode are there.
    EXPECT_EQ(owner.value_or(SocketOwner{1000, 1}).uid, 1000U) << size;
  }
  const std::string bad =
      "   1: 0100007F:C350 0100007F:1F90 01 0:0 00:0 0  -1 0 4711 1\n"
      "   1: 0100007F:C350 0100007F:1F90 01 0:0 00:0 0  10 0 x 1\n";
  EXPECT_FALSE(FindInProcNetTcp(bad, Loopback(50000), Loopback(8080)).has_value());
}

}  // namespace
}  // namespace hvdray
