// SPDX-License-Identifier: Apache-2.0
#include "base/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  UniqueFd Bound() const {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = UnixAddress(path_).value();
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  TempDirectory directory_;
  std::string path_ = directory_ / "socket";
  UniqueFd fd_;
};

TEST_F(UnixSocketTest, ConnectsToWhoListens) {
  const UniqueFd listener = Bound();
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  EXPECT_FALSE(IsDeadSocket(path_));
  ASSERT_EQ(ConnectUnix(path_, fd_), 0);
  EXPECT_TRUE(WriteAll(fd_.get(), "x").ok());
}

TEST_F(UnixSocketTest, ASocketIsDeadIfNobodyListens) {
  (void)Bound();
  EXPECT_EQ(ConnectUnix(path_, fd_), ECONNREFUSED);
  EXPECT_TRUE(IsDeadSocket(path_));
}

TEST_F(UnixSocketTest, AListenerWhoseBacklogIsFullIsNotDead) {
  const UniqueFd listener = Bound();
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(ConnectUnix(path_, fd_, SOCK_NONBLOCK), 0);
  UniqueFd second;
  EXPECT_EQ(ConnectUnix(path_, second, SOCK_NONBLOCK), EAGAIN);
  EXPECT_FALSE(IsDeadSocket(path_));
}

TEST_F(UnixSocketTest, OtherFilesAndLinksAreNoSockets) {
  EXPECT_FALSE(IsSocket(path_));
  (void)Bound();
  EXPECT_TRUE(IsSocket(path_));
  ASSERT_EQ(::symlink(path_.c_str(), (directory_ / "link").c_str()), 0);
  EXPECT_FALSE(IsSocket(directory_ / "link"));
  EXPECT_FALSE(IsDeadSocket(directory_ / "link"));
  EXPECT_FALSE(IsSocket(directory_.path()));
}

TEST_F(UnixSocketTest, APathFitsWithItsTerminator) {
  EXPECT_TRUE(UnixAddress(std::string(107, 'a')).ok());
  EXPECT_EQ(UnixAddress(std::string(108, 'a')).status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(ConnectUnix(std::string(108, 'a'), fd_), ENAMETOOLONG);
}

}  // namespace
}  // namespace hvdray
