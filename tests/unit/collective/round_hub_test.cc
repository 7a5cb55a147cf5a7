// SPDX-License-Identifier: Apache-2.0
// The hub against connections that are none of the job's. With ranks it is in async_test.cc.
#include "collective/async/round_hub.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>

namespace hvdray {
namespace {

using namespace std::chrono_literals;

const std::string kToken(RoundGreeting::kTokenBytes, 't');

std::string Greeting(uint32_t rank, const std::string& token = kToken) {
  RoundGreeting greeting;
  std::memcpy(greeting.token, token.data(), sizeof greeting.token);
  greeting.rank = rank;
  return {reinterpret_cast<const char*>(&greeting), sizeof greeting};
}

class RoundHubTest : public testing::Test {
 protected:
  void Open(int size, Duration timeout = 60s) {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    address_ = {};
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* generic = reinterpret_cast<sockaddr*>(&address_);
    ASSERT_EQ(::bind(listener.get(), generic, length), 0);
    ASSERT_EQ(::listen(listener.get(), 16), 0);
    ASSERT_EQ(::getsockname(listener.get(), generic, &length), 0);
    hub_ = std::make_unique<RoundHub>(std::move(listener), kToken, size, timeout);
  }

  UniqueFd Connect(const std::string& text) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    return socket;
  }

  // The next frame's type and bytes; "closed" when there is none.
  static std::string Next(const UniqueFd& socket) {
    RoundFrame frame;
    if (::recv(socket.get(), &frame, sizeof frame, MSG_WAITALL) != sizeof frame) return "closed";
    std::string body(frame.size, '\0');
    if (frame.size > 0) (void)::recv(socket.get(), body.data(), body.size(), MSG_WAITALL);
    const std::string name = frame.type == RoundFrame::kRing   ? "ring "
                             : frame.type == RoundFrame::kData ? "data "
                                                               : "end ";
    return name + (frame.type == RoundFrame::kEnd ? body : std::to_string(frame.round));
  }

  sockaddr_in address_{};
  std::unique_ptr<RoundHub> hub_;
};

TEST_F(RoundHubTest, StrangersAreClosedAndHinderNobody) {
  Open(2);
  const UniqueFd silent = Connect("");
  const UniqueFd half = Connect(Greeting(1).substr(0, 20));
  EXPECT_EQ(Next(Connect("GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n")), "closed");
  EXPECT_EQ(Next(Connect(Greeting(1, std::string(RoundGreeting::kTokenBytes, 'f')))), "closed");
  EXPECT_EQ(Next(Connect(Greeting(2))), "closed");
  EXPECT_EQ(Next(Connect(Greeting(UINT32_MAX))), "closed");
  const UniqueFd one = Connect(Greeting(1));
  const UniqueFd zero = Connect(Greeting(0));
  EXPECT_EQ(Next(zero), "ring 0");
  EXPECT_EQ(Next(one), "ring 0");
  EXPECT_EQ(Next(silent), "closed");
  EXPECT_EQ(Next(half), "closed");
  for (const UniqueFd* socket : {&zero, &one}) {
    const std::string data = Encode({RoundFrame::kData, 1}, "abc");
    ASSERT_EQ(::send(socket->get(), data.data(), data.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(data.size()));
    EXPECT_EQ(Next(one), socket == &zero ? "ring 1" : "data 1");
  }
}

TEST_F(RoundHubTest, ARankThatSendsNoRoundsEndsItForAll) {
  for (const std::string& wrong : {Encode({7, 1}, ""), std::string(16, '\xff')}) {
    Open(2);
    const UniqueFd zero = Connect(Greeting(0));
    const UniqueFd one = Connect(Greeting(1) + wrong);
    std::string said = Next(zero);
    if (said == "ring 0") said = Next(zero);  // it came before
    EXPECT_EQ(said, "end rank 1 of 2 has died");
  }
}

TEST_F(RoundHubTest, WhoDoesNotComeIsNamed) {
  Open(3, 1ms);
  const UniqueFd two = Connect(Greeting(2));
  EXPECT_EQ(Next(two), "end rank 0 of 3 did not come");
}

}  // namespace
}  // namespace hvdray
