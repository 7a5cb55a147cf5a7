// SPDX-License-Identifier: Apache-2.0
#include "agent/leave_socket.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "base/unix_socket.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

// A socket file that nobody listens behind, as a killed agent leaves it.
void LeaveSocket(const std::string& path) {
  const sockaddr_un address = UnixAddress(path).value();
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

TEST(TellAgentsToLeaveTest, SocketsOfDeadAgentsGoAndNothingElseDoes) {
  const TempDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0700), 0);
  LeaveSocket(directory / "agent-1.sock");
  ASSERT_TRUE(WriteFileAtomically(directory / "notes.sock", "kept").ok());
  EXPECT_EQ(TellAgentsToLeave(directory.path(), std::chrono::seconds(1)).status().code(),
            ErrorCode::kUsage);
  EXPECT_FALSE(std::filesystem::exists(directory / "agent-1.sock"));
  EXPECT_TRUE(std::filesystem::exists(directory / "notes.sock"));
}

TEST(TellAgentsToLeaveTest, NothingIsTakenAwayInADirectoryThatOthersMayWriteTo) {
  const TempDirectory directory;
  LeaveSocket(directory / "agent-1.sock");
  for (const mode_t mode : {0770, 0707}) {
    ASSERT_EQ(::chmod(directory.path().c_str(), mode), 0);
    EXPECT_FALSE(TellAgentsToLeave(directory.path(), std::chrono::seconds(1)).ok());
    EXPECT_TRUE(std::filesystem::exists(directory / "agent-1.sock"));
  }
  ASSERT_EQ(::chmod(directory.path().c_str(), 0700), 0);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(directory.path().c_str(), 65534, 65534), 0);
  EXPECT_FALSE(TellAgentsToLeave(directory.path(), std::chrono::seconds(1)).ok());
  EXPECT_TRUE(std::filesystem::exists(directory / "agent-1.sock"));
}

TEST(LeaveSocketTest, SocketsOfAgentsThatAreGoneGoWithTheNextOneAndNothingElseDoes) {
  const TempDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0700), 0);
  constexpr const char* kNobody = "agent-2147483647.sock";  // above every pid
  LeaveSocket(directory / kNobody);
  LeaveSocket(directory / "agent-1.sock");  // of a process that is there
  LeaveSocket(directory / "agent-2147483647.sock.other");
  LeaveSocket(directory / "agent-x.sock");
  LeaveSocket(directory / "agent-.sock");
  ASSERT_TRUE(WriteFileAtomically(directory / "agent-2147483646.sock", "no socket").ok());
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  std::set<std::string> left;
  {
    auto own = LeaveSocket::Open(**loop, directory.path(), [](Duration) {});
    ASSERT_TRUE(own.ok());
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      left.insert(entry.path().filename());
    }
  }
  EXPECT_EQ(left, (std::set<std::string>{fmt::format("agent-{}.sock", ::getpid()), "agent-.sock",
                                         "agent-1.sock", "agent-2147483646.sock",
                                         "agent-2147483647.sock.other", "agent-x.sock"}));
}

TEST(LeaveSocketTest, TheDirectoryGoesWithItsLastSocket) {
  const TempDirectory directory;
  const std::string sockets = directory / "sockets";
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  auto own = LeaveSocket::Open(**loop, sockets, [](Duration) {});
  ASSERT_TRUE(own.ok()) << own.status().message();
  LeaveSocket(sockets + "/agent-1.sock");
  own = Status(ErrorCode::kInternal, "closed");
  EXPECT_TRUE(std::filesystem::exists(sockets + "/agent-1.sock"));
  RemoveDeadLeaveSocket(sockets, 1);
  EXPECT_FALSE(std::filesystem::exists(sockets));
}

TEST(LeaveSocketTest, OneThatIsListenedOnStaysThoughItsProcessSeemsToBeGone) {
  const TempDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0700), 0);
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  auto other = LeaveSocket::Open(**loop, directory.path(), [](Duration) {});
  ASSERT_TRUE(other.ok());
  const std::string path = directory / "agent-2147483647.sock";  // as of another pid namespace
  std::filesystem::rename(directory / fmt::format("agent-{}.sock", ::getpid()), path);
  auto own = LeaveSocket::Open(**loop, directory.path(), [](Duration) {});
  ASSERT_TRUE(own.ok());
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(RemoveDeadLeaveSocketTest, TheSocketOfThisAgentGoesAndOneThatIsListenedOnStays) {
  const TempDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0700), 0);
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  auto own = LeaveSocket::Open(**loop, directory.path(), [](Duration) {});
  ASSERT_TRUE(own.ok());
  const std::string own_path = directory / fmt::format("agent-{}.sock", ::getpid());
  LeaveSocket(directory / "agent-1.sock");
  LeaveSocket(directory / "agent-11.sock");
  RemoveDeadLeaveSocket(directory.path(), 1);
  RemoveDeadLeaveSocket(directory.path(), ::getpid());
  RemoveDeadLeaveSocket(directory / "none", 1);
  EXPECT_FALSE(std::filesystem::exists(directory / "agent-1.sock"));
  EXPECT_TRUE(std::filesystem::exists(directory / "agent-11.sock"));
  EXPECT_TRUE(std::filesystem::exists(own_path));
}

}  // namespace
}  // namespace hvdray
