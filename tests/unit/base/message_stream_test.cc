// SPDX-License-Identifier: Apache-2.0
#include "base/message_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

constexpr uint64_t kLargestBlob = INT64_MAX;

/// Writes down what a reader says. The pieces of a blob become one entry, as they depend on how the
/// stream was cut.
class Listener {
 public:
  Status Feed(ByteView bytes) { return reader_.Feed(bytes); }
  /// Each byte by itself, up to the first error.
  Status FeedByByte(ByteView bytes) {
    for (const char& byte : bytes) HVDRAY_RETURN_IF_ERROR(Feed(ByteView(&byte, 1)));
    return {};
  }
  bool is_between() const { return reader_.is_between(); }
  const std::vector<std::string>& heard() const { return heard_; }

  Status answer_to_message;
  Status answer_to_blob;

 private:
  MessageReader reader_{{.on_message =
                             [this](std::string_view type, const Json& head, uint64_t blob) {
                               EXPECT_EQ(left_, 0U) << "the blob before this message is not whole";
                               EXPECT_EQ(head.at("type"), type);
                               left_ = blob;
                               heard_.push_back(fmt::format("{} {}", type, blob));
                               return answer_to_message;
                             },
                         .on_blob =
                             [this](ByteView piece, uint64_t left) {
                               EXPECT_FALSE(piece.empty());
                               EXPECT_EQ(left_ - piece.size(), left);
                               left_ = left;
                               blob_ += piece;
                               if (left == 0) heard_.push_back("blob " + std::exchange(blob_, {}));
                               return answer_to_blob;
                             }}};
  std::vector<std::string> heard_;
  std::string blob_;
  uint64_t left_ = 0;
};

std::string Nested(int depth) {
  // The object itself is the first level.
  return "{\"type\":\"t\",\"a\":" + std::string(static_cast<size_t>(depth) - 1, '[') +
         std::string(static_cast<size_t>(depth) - 1, ']') + "}\n";
}

/// A message of `bytes` bytes, its newline included.
std::string LineOf(size_t bytes) {
  const std::string head = R"({"type":"t","a":")";
  return head + std::string(bytes - head.size() - 3, 'x') + "\"}\n";
}

constexpr std::string_view kStream =
    "{\"type\":\"a\"}\n"
    "{\"blob\":5,\"type\":\"b\"}\n1\n{}2"
    "  { \"type\" : \"c\", \"later\": [1], \"blob\": 0 } \r\n"
    "{\"type\":\"caf\xc3\xa9\"}\n";
const std::vector<std::string> kHeard = {"a 0", "b 5", "blob 1\n{}2", "c 0", "caf\xc3\xa9 0"};

TEST(MessageReaderTest, HowTheStreamWasCutDoesNotMatter) {
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    Listener listener;
    ASSERT_TRUE(listener.Feed(kStream.substr(0, cut)).ok()) << cut;
    ASSERT_TRUE(listener.Feed(kStream.substr(cut)).ok()) << cut;
    EXPECT_EQ(listener.heard(), kHeard) << cut;
  }
  Listener listener;
  ASSERT_TRUE(listener.FeedByByte(kStream).ok());
  EXPECT_EQ(listener.heard(), kHeard);
  EXPECT_TRUE(listener.is_between());
}

TEST(MessageReaderTest, AMessageHasBegunWithItsFirstByteAndEndsWithItsBlob) {
  Listener listener;
  EXPECT_TRUE(listener.is_between());
  ASSERT_TRUE(listener.Feed("{").ok());
  EXPECT_FALSE(listener.is_between());
  ASSERT_TRUE(listener.Feed("\"type\":\"b\",\"blob\":2}\n").ok());
  EXPECT_FALSE(listener.is_between());
  ASSERT_TRUE(listener.Feed("x").ok());
  EXPECT_FALSE(listener.is_between());
  ASSERT_TRUE(listener.Feed("y").ok());
  EXPECT_TRUE(listener.is_between());
}

TEST(MessageReaderTest, ABlobIsPassedOnAsItArrivesHoweverLargeItIs) {
  Listener listener;
  ASSERT_TRUE(listener.Feed(fmt::format("{{\"type\":\"b\",\"blob\":{}}}\n", kLargestBlob)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(listener.Feed(std::string(100'000, '\n')).ok());
  EXPECT_EQ(listener.heard(), std::vector<std::string>{fmt::format("b {}", kLargestBlob)});
  EXPECT_FALSE(listener.is_between());
}

TEST(MessageReaderTest, ABlobThatIsNoSizeIsRefused) {
  for (const char* blob : {"-1", "-0", "1.0", "1e3", "9223372036854775808", "18446744073709551616",
                           "\"5\"", "null", "true", "[5]", "{}"}) {
    Listener listener;
    const Status status = listener.Feed(fmt::format("{{\"type\":\"b\",\"blob\":{}}}\n", blob));
    ExpectError(status, ErrorCode::kProtocolError, {});
    EXPECT_TRUE(listener.heard().empty()) << blob;
  }
}

TEST(MessageReaderTest, TheLongestLineIsAMebibyte) {
  Listener listener;
  ASSERT_TRUE(listener.Feed(LineOf(kMaxMessageLine)).ok());
  EXPECT_EQ(listener.heard(), std::vector<std::string>{"t 0"});
  ExpectError(listener.Feed(LineOf(kMaxMessageLine + 1)), ErrorCode::kProtocolError, {"1 MiB"});
}

TEST(MessageReaderTest, ALineThatNeverEndsIsRefusedAtTheLimit) {
  Listener listener;
  const std::string piece(kMaxMessageLine / 16, ' ');
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(listener.Feed(piece).ok());
  ASSERT_TRUE(listener.Feed(piece.substr(1)).ok());
  EXPECT_EQ(listener.Feed(" ").code(), ErrorCode::kProtocolError);
}

TEST(MessageReaderTest, NestingEndsAtSixtyFourLevels) {
  Listener listener;
  ASSERT_TRUE(listener.Feed(Nested(64)).ok());
  for (const int depth : {66, 1000, 200'000}) {
    Listener deep;
    EXPECT_EQ(deep.Feed(Nested(depth)).code(), ErrorCode::kProtocolError) << depth;
  }
}

TEST(MessageReaderTest, ALineThatIsNoObjectWithATypeIsRefused) {
  using namespace std::string_literals;
  for (const std::string& line :
       {""s, "\r"s, "{"s, "}"s, "{}"s, "[]"s, "null"s, "7"s, "\"type\""s, "{\"type\":7}"s,
        "{\"type\":null}"s, "[{\"type\":\"t\"}]"s, "{\"type\":\"t\"}{}"s, "{'type':'t'}"s,
        "{\"type\":\"\xff\"}"s, "{\"type\":\"t\",\"a\":NaN}"s, "{\"type\":\"t\",\"a\":1e999}"s,
        "{\"type\":\"t\0\"}"s, "hello"s}) {
    for (const bool is_by_byte : {false, true}) {
      Listener listener;
      const Status status =
          is_by_byte ? listener.FeedByByte(line + "\n") : listener.Feed(line + "\n");
      ExpectError(status, ErrorCode::kProtocolError, {});
      EXPECT_TRUE(listener.heard().empty()) << line;
    }
  }
}

TEST(MessageReaderTest, AnErrorIsFinal) {
  Listener listener;
  ASSERT_TRUE(listener.Feed("{\"type\":\"a\"}\n").ok());
  EXPECT_FALSE(listener.Feed("no message\n{\"type\":\"b\"}\n").ok());
  EXPECT_TRUE(listener.Feed("{\"type\":\"c\"}\nno message either\n").ok()) << "told once";
  EXPECT_EQ(listener.heard(), std::vector<std::string>{"a 0"});
}

TEST(MessageReaderTest, AnErrorOfItsOwnerIsFinalToo) {
  const Status why(ErrorCode::kNoCapacity, "not now");
  Listener listener;
  listener.answer_to_message = why;
  EXPECT_EQ(listener.Feed("{\"type\":\"a\",\"blob\":1}\nx{\"type\":\"b\"}\n"), why);
  EXPECT_TRUE(listener.Feed("x{\"type\":\"b\"}\n").ok());
  EXPECT_EQ(listener.heard(), std::vector<std::string>{"a 1"});

  Listener reader;
  reader.answer_to_blob = why;
  EXPECT_EQ(reader.Feed("{\"type\":\"a\",\"blob\":2}\nxx{\"type\":\"b\"}\n"), why);
  EXPECT_TRUE(reader.Feed("{\"type\":\"b\"}\n").ok());
  EXPECT_EQ(reader.heard(), (std::vector<std::string>{"a 2", "blob xx"}));
}

TEST(MessageLineTest, IsReadBackAsItWas) {
  const Json head = {{"type", "t"}, {"text", "two\nlines"}, {"blob", 0}};
  const std::string line = MessageLine(head);
  EXPECT_EQ(line, "{\"type\":\"t\",\"text\":\"two\\nlines\",\"blob\":0}\n");
  Listener listener;
  EXPECT_TRUE(listener.Feed(line).ok());
  EXPECT_EQ(listener.heard(), std::vector<std::string>{"t 0"});
}

}  // namespace
}  // namespace hvdray
