#include "agent/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/fakes/temp_folder.h"

namespace hvdray {
namespace {

// A socket file that nobody listens behind, as a killed agent leaves it.
void LeaveSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST(TellAgentsToLeaveTest, SocketsOfDeadAgentsGoAndNothingElseDoes) {
  const TempFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  LeaveSocket(folder / "agent-1.sock");
  ASSERT_TRUE(WriteFileAtomically(folder / "notes.sock", "kept").ok());
  EXPECT_EQ(TellAgentsToLeave(folder.path(), std::chrono::seconds(1)).status().code(),
            ErrorCode::kUsage);
  EXPECT_FALSE(std::filesystem::exists(folder / "agent-1.sock"));
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.sock"));
}

TEST(TellAgentsToLeaveTest, NothingIsTakenAwayInAFolderThatOthersMayWriteTo) {
  const TempFolder folder;
  LeaveSocket(folder / "agent-1.sock");
  for (const mode_t mode : {0770, 0707}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    EXPECT_FALSE(TellAgentsToLeave(folder.path(), std::chrono::seconds(1)).ok());
    EXPECT_TRUE(std::filesystem::exists(folder / "agent-1.sock"));
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(folder.path().c_str(), 65534, 65534), 0);
  EXPECT_FALSE(TellAgentsToLeave(folder.path(), std::chrono::seconds(1)).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "agent-1.sock"));
}

}  // namespace
}  // namespace hvdray
