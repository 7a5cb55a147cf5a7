// SPDX-License-Identifier: Apache-2.0
// A recorded client over a real socket; the session is played by the test. Not here: a real session
// behind it (tests/integration/ray_calls_test.py).
#include "cluster/ray/recorded_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

constexpr const char* kStopped = R"({"type":"stopped","gang":1,"exit":{"code":3}})";

class RecordedClientTest : public testing::Test {
 protected:
  void Begin(const std::string& recording) {
    const std::string path = directory_ / "control";
    {
      const UniqueFd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      ASSERT_TRUE(WriteAll(out.get(), recording).ok());
    }
    Open(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  }

  void Open(UniqueFd recording) {
    auto [ours, theirs] = MakeSocketPair().value();
    session_ = std::move(ours);
    client_ = std::make_unique<RecordedClient>(
        *loop_, std::move(recording), std::move(theirs),
        RecordedClient::Handlers{.on_message =
                                     [this](ByteView message) {
                                       passed_on_.emplace_back(message);
                                       return answer_;
                                     },
                                 .on_failed =
                                     [this](const Status& why) {
                                       EXPECT_FALSE(failed_.has_value());
                                       failed_ = why;
                                     }});
    client_->Start();
  }

  void Say(std::string text) {
    while (!text.empty()) {
      const ssize_t n =
          ::send(session_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) text.erase(0, static_cast<size_t>(n));
      Settle(*loop_);
    }
  }
  void SayLine(const std::string& line) { Say(line + "\n"); }

  /// All that the client says until it waits.
  std::string Heard() {
    std::string heard, piece(size_t{1} << 16, '\0');
    for (;;) {
      Settle(*loop_);
      const ssize_t n = ::recv(session_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      if (n <= 0) return heard;
      heard.append(piece, 0, static_cast<size_t>(n));
    }
  }

  const TempDirectory directory_;
  const std::unique_ptr<Loop> loop_ = Loop::Create().value();
  UniqueFd session_;
  std::unique_ptr<RecordedClient> client_;
  std::vector<std::string> passed_on_;
  Status answer_;
  std::optional<Status> failed_;
};

TEST_F(RecordedClientTest, SaysAllOfARecordingThatIsLargerThanAnySocket) {
  std::string recording(size_t{3} << 20, 'r');
  for (size_t i = 0; i < recording.size(); i += 4096) recording[i] = static_cast<char>(i >> 12);
  Begin(recording);
  EXPECT_TRUE(Heard() == recording);
  EXPECT_FALSE(failed_);
}

TEST_F(RecordedClientTest, PassesOnMessagesWithTheirBlobsButNoGreetings) {
  Begin("recorded\n");
  SayLine(R"({"type":"hello","protocol":1})");
  const std::string ready = R"({"gang":1,"type":"ready"})";
  const std::string data = R"({"blob":3,"gang":1,"type":"data"})";
  SayLine(ready);
  Say(data + "\na");
  EXPECT_EQ(passed_on_.size(), 1U) << "only whole ones";
  Say("bc");
  SayLine(R"({"type":"bye","exit":0})");
  ASSERT_EQ(passed_on_.size(), 2U);
  EXPECT_EQ(ParseJson(passed_on_[0]).value(), ParseJson(ready).value());
  EXPECT_TRUE(passed_on_[1].ends_with("\nabc")) << passed_on_[1];
  EXPECT_EQ(Heard(), "recorded\n");
}

TEST_F(RecordedClientTest, SaysByeOnceTheGangHasEndedAndKnowsHow) {
  Begin("");
  EXPECT_EQ(client_->exit_code(), 125);
  SayLine(kStopped);
  EXPECT_EQ(Heard(), "{\"type\":\"bye\"}\n");
  EXPECT_EQ(client_->exit_code(), 3);
  ASSERT_EQ(passed_on_.size(), 1U);
}

TEST_F(RecordedClientTest, SaysByeIfTheGangCanNotStartButNotForAnObjectAlone) {
  Begin("");
  SayLine(R"({"type":"refused","about":"put","code":"HVD-E0218","message":"m","hint":""})");
  EXPECT_EQ(Heard(), "");
  SayLine(R"({"type":"refused","about":"start","code":"HVD-E0205","message":"m","hint":""})");
  EXPECT_EQ(Heard(), "{\"type\":\"bye\"}\n");
  EXPECT_EQ(client_->exit_code(), 125);
  EXPECT_EQ(passed_on_.size(), 2U);
}

TEST_F(RecordedClientTest, GivesCreditForDataByTheMegabyteAndExactly) {
  Begin("");
  uint64_t sent = 0;
  const std::string blob(size_t{64} << 10, 'b');
  while (sent < (size_t{3} << 20)) {
    Json head;
    head["type"] = "data";
    head["gang"] = 1;
    head["blob"] = blob.size();
    const std::string message = MessageLine(head) + blob;
    Say(message);
    sent += message.size();
  }
  uint64_t credit = 0;
  const std::string heard = Heard();
  MessageReader reader({[&credit](std::string_view type, const Json& head, uint64_t) {
                          EXPECT_EQ(type, "credit");
                          credit += head["bytes"].get<uint64_t>();
                          return Status();
                        },
                        [](ByteView, uint64_t) { return Status(); }});
  ASSERT_TRUE(reader.Feed(heard).ok());
  EXPECT_GT(credit, sent - (size_t{2} << 20));
  EXPECT_LE(credit, sent);
}

TEST_F(RecordedClientTest, ItsOwnWordsNeverCutTheRecording) {
  const std::string recording(size_t{3} << 20, 'r');
  Begin(recording);
  SayLine(R"({"type":"refused","about":null,"code":"HVD-E0102","message":"m","hint":""})");
  EXPECT_TRUE(Heard() == recording + "{\"type\":\"bye\"}\n");
}

TEST_F(RecordedClientTest, EndsWithWhatCanNotBeKept) {
  Begin("");
  answer_ = Status(ErrorCode::kOutputLost, "the disk is full");
  SayLine(R"({"type":"ready","gang":1,"workers":[]})");
  SayLine(kStopped);
  EXPECT_EQ(failed_, answer_);
  EXPECT_EQ(passed_on_.size(), 1U);
}

TEST_F(RecordedClientTest, ASessionThatMakesNoSenseEndsIt) {
  Begin("");
  SayLine("no message");
  ASSERT_TRUE(failed_.has_value());
  EXPECT_EQ(failed_->code(), ErrorCode::kProtocolError);
}

TEST_F(RecordedClientTest, ARecordingThatCanNotBeReadEndsIt) {
  Open(UniqueFd(::open(directory_.path().c_str(), O_RDONLY | O_CLOEXEC)));
  EXPECT_TRUE(failed_.has_value());
}

TEST_F(RecordedClientTest, TheByeIsAwaited) {
  Begin("");
  const Watch later = loop_->After(std::chrono::milliseconds(1), [this] {
    ASSERT_TRUE(WriteAll(session_.get(), std::string(kStopped) + "\n{\"type\":\"bye\"}\n").ok());
  });
  client_->AwaitBye();
  EXPECT_EQ(client_->exit_code(), 3);
  client_->AwaitBye();  // at once
}

}  // namespace
}  // namespace hvdray
