// SPDX-License-Identifier: Apache-2.0
// The client's end of `hvdray serve` over real sockets. Not here: the death of a client whose fork
// holds the socket open (tests/integration/serve_test.py), and what the requests mean.
#include "launcher/engine/control_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "base/unix_socket.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

constexpr const char* kHello = R"({"type":"hello","protocol":1,"client":"test"})";

class ControlLinkTest : public testing::Test, protected ControlLink::Owner {
 protected:
  void SetUp() override {
    loop_ = Loop::Create().value();
    auto [ours, theirs] = MakeSocketPair().value();
    client_ = std::move(theirs);
    link_ = ControlLink::Open(*loop_, std::move(ours), std::chrono::seconds(5), *this).value();
  }

  void Say(std::string text) {
    while (!text.empty()) {
      const ssize_t n = ::write(client_.get(), text.data(), text.size());
      if (n > 0) text.erase(0, static_cast<size_t>(n));
      Settle(*loop_);
    }
  }
  void SayLine(const std::string& line) { Say(line + "\n"); }

  std::string Heard() {
    Settle(*loop_);
    std::string heard(size_t{1} << 20, '\0');
    const ssize_t n = ::recv(client_.get(), heard.data(), heard.size(), MSG_DONTWAIT);
    heard.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return heard;
  }

  /// The link has ended with this violation, told the client so, and passed on nothing more.
  void ExpectRefused(const std::string& words) {
    ASSERT_TRUE(gone_.has_value());
    EXPECT_EQ(gone_->code(), ErrorCode::kProtocolError);
    EXPECT_NE(gone_->message().find(words), std::string::npos) << gone_->ToString();
    EXPECT_NE(Heard().find("\"type\":\"refused\""), std::string::npos);
    const size_t before = requests_.size();
    SayLine(R"({"type":"drop","object":1})");
    EXPECT_EQ(requests_.size(), before);
  }

  std::unique_ptr<Loop> loop_;
  UniqueFd client_;
  std::unique_ptr<ControlLink> link_;
  std::vector<ControlRequest> requests_;
  std::string pieces_;
  uint64_t left_ = 0;
  std::optional<Status> gone_;
  int rooms_ = 0;

 private:
  void OnRequest(ControlRequest request) override { requests_.push_back(std::move(request)); }
  void OnPiece(ByteView piece, uint64_t left) override {
    pieces_ += piece;
    left_ = left;
  }
  void OnGone(const Status& why) override { gone_ = why; }
  void OnRoom() override { ++rooms_; }
};

TEST_F(ControlLinkTest, RequestsComeInOrderHoweverTheyAreCut) {
  const std::string all =
      std::string(kHello) + "\n" + R"({"type":"send","gang":1,"to":"all","blob":3})" + "\nabc" +
      R"({"type":"put","object":2,"blob":4})" + "\nwxyz" + R"({"type":"drop","object":2})" + "\n";
  for (const char byte : all) Say(std::string(1, byte));
  ASSERT_EQ(requests_.size(), 4U);
  EXPECT_EQ(std::get<control::Hello>(requests_[0]).client, "test");
  EXPECT_EQ(std::get<control::Send>(requests_[1]).blob, "abc");
  EXPECT_EQ(std::get<control::Put>(requests_[2]).size, 4U);
  EXPECT_EQ(std::get<control::Drop>(requests_[3]).object, 2);
  EXPECT_EQ(pieces_, "wxyz");
  EXPECT_EQ(left_, 0U);
  EXPECT_FALSE(gone_);
}

TEST_F(ControlLinkTest, TheFirstMessageIsHello) {
  SayLine(R"({"type":"drop","object":1})");
  ExpectRefused("first message must be \"hello\"");
  EXPECT_TRUE(requests_.empty());
}

TEST_F(ControlLinkTest, ThereIsOneHello) {
  SayLine(kHello);
  SayLine(kHello);
  ExpectRefused("second \"hello\"");
}

TEST_F(ControlLinkTest, AnotherProtocolIsRefusedWithBothNumbers) {
  SayLine(R"({"type":"hello","protocol":7})");
  ExpectRefused("protocol 7, this build speaks 1");
}

TEST_F(ControlLinkTest, WhatIsNoMessageEndsTheLink) {
  SayLine(kHello);
  SayLine("GET / HTTP/1.1");
  ExpectRefused("");
}

TEST_F(ControlLinkTest, DataWaitsForCredit) {
  SayLine(kHello);
  const std::string blob(size_t{1} << 20, 'x');
  int64_t sent = 0;
  std::string heard;
  // The socket alone does not hold it back: the client reads, and gives no credit.
  for (; link_->HasRoom() || heard.size() < static_cast<size_t>(sent); heard += Heard()) {
    if (!link_->HasRoom()) continue;
    link_->SendData({{"type", "data"}}, blob);
    sent += static_cast<int64_t>(blob.size());
  }
  EXPECT_GE(sent, kControlWindowBytes - static_cast<int64_t>(blob.size()));
  rooms_ = 0;
  SayLine(R"({"type":"credit","bytes":1000000})");
  EXPECT_EQ(rooms_, 1);
  EXPECT_TRUE(link_->HasRoom());
  SayLine(R"({"type":"credit","bytes":67108864})");
  ExpectRefused("\"credit\" for more than was sent");
}

TEST_F(ControlLinkTest, OtherMessagesFillTheSocketToo) {
  SayLine(kHello);
  const Json report = {{"type", "report"}, {"text", std::string(size_t{1} << 16, 'x')}};
  while (link_->HasRoom()) link_->Send(report);
  rooms_ = 0;
  while (!Heard().empty()) continue;
  EXPECT_EQ(rooms_, 1) << "whoever waits for room hears of it";
}

TEST_F(ControlLinkTest, NothingWaitsForAClientThatHasGone) {
  SayLine(kHello);
  const std::string blob(size_t{1} << 20, 'x');
  while (link_->HasRoom()) link_->SendData({{"type", "data"}}, blob);
  ::shutdown(client_.get(), SHUT_WR);
  ASSERT_TRUE(RunUntil(*loop_, [this] { return gone_.has_value(); }));
  EXPECT_TRUE(link_->HasRoom());
  link_->SendData({{"type", "data"}, {"data", "late"}}, blob);
  std::string heard;
  for (std::string more = Heard(); !more.empty(); more = Heard()) heard += more;
  EXPECT_EQ(heard.find("late"), std::string::npos) << "there was no room for it";
}

TEST_F(ControlLinkTest, ByeEndsItOnce) {
  SayLine(std::string(kHello) + "\n" + R"({"type":"bye"})" + "\n" +
          R"({"type":"drop","object":1})");
  ASSERT_TRUE(gone_.has_value());
  EXPECT_TRUE(gone_->ok());
  EXPECT_EQ(requests_.size(), 1U);
  link_->Close(3);
  link_->Send({{"type", "late"}});
  EXPECT_EQ(Heard(), "{\"type\":\"bye\",\"exit\":3}\n");
  gone_.reset();
  client_.Reset();
  Settle(*loop_);
  EXPECT_FALSE(gone_) << "told twice";
}

TEST_F(ControlLinkTest, TheEndOfFileIsAByeAlsoInTheMiddleOfAMessage) {
  SayLine(kHello);
  Say(R"({"type":"put","object":2,"blob":400})");
  Say("\nabc");
  client_.Reset();
  ASSERT_TRUE(RunUntil(*loop_, [this] { return gone_.has_value(); }));
  EXPECT_TRUE(gone_->ok());
  EXPECT_EQ(left_, 397U);
}

TEST_F(ControlLinkTest, OnlyAConnectedStreamSocketWillDo) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const UniqueFd reader(pipe[0]);
  EXPECT_EQ(ControlLink::Open(*loop_, UniqueFd(pipe[1]), {}, *this).status().code(),
            ErrorCode::kUsage);
  UniqueFd alone(::socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(ControlLink::Open(*loop_, std::move(alone), {}, *this).status().code(),
            ErrorCode::kUsage);
}

class ControlListenerTest : public testing::Test {
 protected:
  Result<std::unique_ptr<ControlListener>> Open() {
    return ControlListener::Open(
        *loop_, path_, [this](UniqueFd socket) { clients_.push_back(std::move(socket)); });
  }
  UniqueFd Connect() {
    UniqueFd fd;
    EXPECT_EQ(ConnectUnix(path_, fd), 0);
    return fd;
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  TempDirectory directory_;
  std::string path_ = directory_ / "control";
  std::vector<UniqueFd> clients_;
};

TEST_F(ControlListenerTest, ItsSocketIsForItsUserAndGoesWithIt) {
  auto listener = Open();
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const UniqueFd client = Connect();
  Settle(*loop_);
  EXPECT_EQ(clients_.size(), 1U);
  listener->reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ControlListenerTest, OnlyADeadSocketIsReplaced) {
  auto first = Open();
  ASSERT_TRUE(first.ok());
  const auto second = Open();
  EXPECT_EQ(second.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(second.status().hint(), "another hvdray serve listens there");
  const UniqueFd client = Connect();  // the refused one left the socket alone
  // A socket whose process is gone.
  const std::string kept = path_ + ".kept";
  ASSERT_EQ(::link(path_.c_str(), kept.c_str()), 0);
  first->reset();
  ASSERT_EQ(::rename(kept.c_str(), path_.c_str()), 0);
  EXPECT_TRUE(Open().ok());
}

TEST_F(ControlListenerTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "mine";
  const auto listener = Open();
  EXPECT_EQ(listener.status().code(), ErrorCode::kFileUnwritable);
  EXPECT_EQ(listener.status().hint(), "it exists and is not a socket");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ControlListenerTest, APathTooLongForASocketIsTold) {
  path_ = directory_ / std::string(200, 'x');
  EXPECT_EQ(Open().status().code(), ErrorCode::kFileUnwritable);
}

}  // namespace
}  // namespace hvdray
