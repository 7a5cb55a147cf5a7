// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_agent.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/unix_socket.h"
#include "cluster/ssh/wire_text.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

const SshLimit kLong = SshLimit::In(std::chrono::minutes(1));

std::string KeysAnswer() {
  std::string answer(1, 12);
  AppendSshUint32(answer, 2);
  for (const char* text : {"blob1", "comment1", "blob2", "comment2"}) AppendSshString(answer, text);
  return answer;
}

/// A listener at a path; what it answers is the test's affair.
class AgentSocket {
 public:
  AgentSocket() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = UnixAddress(path()).value();
    HVDRAY_CHECK(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
                 0);
    HVDRAY_CHECK(::listen(fd_.get(), 4) == 0);
  }
  std::string path() const { return directory_ / "agent"; }
  /// The connections made so far, each without an answer.
  int AcceptAll() {
    HVDRAY_CHECK(SetNonBlocking(fd_.get()).ok());
    for (UniqueFd peer = Accept(); peer.is_valid(); peer = Accept()) {
      silent_.push_back(std::move(peer));
    }
    return static_cast<int>(silent_.size());
  }
  UniqueFd Accept() const { return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  TempDirectory directory_;
  UniqueFd fd_;
  std::vector<UniqueFd> silent_;
};

TEST(SshAgentTest, KeysAreTakenFromTheAnswer) {
  const std::vector<SshAgentKey> keys = ParseAgentKeys(KeysAnswer()).value();
  EXPECT_EQ(keys, (std::vector<SshAgentKey>{{"blob1", "comment1"}, {"blob2", "comment2"}}));
}

TEST(SshAgentTest, AnswersCutAtAnyPlaceAreRefused) {
  const std::string whole = KeysAnswer();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ParseAgentKeys(whole.substr(0, size)).status().code(), ErrorCode::kProtocolError);
  }
  std::string many(1, 12);
  AppendSshUint32(many, 0xffffffff);
  EXPECT_FALSE(ParseAgentKeys(many).ok());
}

TEST(SshAgentTest, SignatureComesWithoutItsAlgorithm) {
  std::string signature;
  AppendSshString(signature, "ssh-ed25519");
  AppendSshString(signature, "sig");
  std::string answer(1, 14);
  AppendSshString(answer, signature);
  EXPECT_EQ(ParseAgentSignature(answer).value(), "sig");
  EXPECT_EQ(ParseAgentSignature(std::string(1, 5)).status().code(),
            ErrorCode::kAuthenticationFailed);
  EXPECT_EQ(ParseAgentSignature(answer.substr(0, 9)).status().code(), ErrorCode::kProtocolError);
}

TEST(SshAgentTest, AsksOverTheSocket) {
  const AgentSocket socket;
  std::string request(5, '\0');
  std::thread agent([&] {
    const UniqueFd peer = socket.Accept();
    EXPECT_EQ(::recv(peer.get(), request.data(), 5, MSG_WAITALL), 5);
    std::string frame;
    AppendSshString(frame, KeysAnswer());
    EXPECT_TRUE(WriteAll(peer.get(), frame.substr(0, 7)).ok());
    EXPECT_TRUE(WriteAll(peer.get(), frame.substr(7)).ok());
  });
  SshAgent client = SshAgent::Connect(socket.path(), kLong).value();
  EXPECT_EQ(client.Keys(kLong).value().size(), 2u);
  agent.join();
  EXPECT_EQ(request, std::string("\0\0\0\1\13", 5));
}

TEST(SshAgentTest, ASilentAgentIsGivenUpAtTheDeadline) {
  const AgentSocket socket;
  SshAgent client = SshAgent::Connect(socket.path(), kLong).value();
  EXPECT_EQ(client.Keys(SshLimit::In(std::chrono::milliseconds(20))).status().code(),
            ErrorCode::kConnectTimeout);
}

TEST(SshAgentTest, OfAllHostsTheFirstFindsThatAnAgentIsSilent) {
  AgentSocket socket;
  const SshLimit short_limit = SshLimit::In(std::chrono::milliseconds(20));
  EXPECT_FALSE(ConnectToAgent(socket.path(), short_limit).ok());
  EXPECT_EQ(socket.AcceptAll(), 1) << "a host without time says nothing about the agent";
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host) {
    hosts.emplace_back([&socket] {
      EXPECT_EQ(ConnectToAgent(socket.path(), kLong).status().code(), ErrorCode::kConnectTimeout);
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(socket.AcceptAll(), 2);
  ASSERT_EQ(::rename(socket.path().c_str(), (socket.path() + ".old").c_str()), 0);
  EXPECT_EQ(ConnectToAgent(socket.path(), kLong).status().code(), ErrorCode::kFileUnreadable);
  ASSERT_EQ(::rename((socket.path() + ".old").c_str(), socket.path().c_str()), 0);
  EXPECT_FALSE(ConnectToAgent(socket.path(), short_limit).ok());
  EXPECT_EQ(socket.AcceptAll(), 3) << "another socket is asked";
}

TEST(SshAgentTest, AnAgentThatLiesAboutLengthsCostsNoMemory) {
  const AgentSocket socket;
  SshAgent client = SshAgent::Connect(socket.path(), kLong).value();
  const UniqueFd peer = socket.Accept();
  ASSERT_TRUE(WriteAll(peer.get(), "\xff\xff\xff\xff").ok());
  EXPECT_EQ(client.Keys(kLong).status().code(), ErrorCode::kProtocolError);
}

TEST(SshAgentTest, NobodyAtThePathIsAnError) {
  EXPECT_EQ(SshAgent::Connect("/no/such/agent", kLong).status().code(), ErrorCode::kFileUnreadable);
  EXPECT_FALSE(SshAgent::Connect(std::string(300, 'x'), kLong).ok());
}

TEST(SshAgentTest, CallingOffEndsTheWait) {
  const AgentSocket socket;
  const Pipe cancel = MakePipe().value();
  SshAgent client = SshAgent::Connect(socket.path(), kLong).value();
  ASSERT_TRUE(WriteAll(cancel.write_end.get(), "x").ok());
  const SshLimit limit = SshLimit::In(std::chrono::minutes(1), cancel.read_end.get());
  EXPECT_EQ(client.Keys(limit).status().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace hvdray
