// SPDX-License-Identifier: Apache-2.0
// Vectors made by a live WorkerNotificationService (horovod/runner/elastic/worker.py), and answers
// that are not to be trusted.
#include "rendezvous/notice.h"

#include <gtest/gtest.h>

#include <string>

#include "base/digest.h"
#include "rendezvous/pickle_machine.h"
#include "rendezvous/restricted_pickle.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using std::string_literals::operator""s;

NoticeKey KeyOf(uint8_t byte) {
  NoticeKey key;
  key.fill(byte);
  return key;
}
const NoticeKey kKey = KeyOf(0x6b);

const std::string kAck =
    "\x80\x05\x95\x39\0\0\0\0\0\0\0\x8c\x22"s
    "horovod.runner.common.util.network\x94\x8c\x0b"s
    "AckResponse\x94\x93\x94)\x81\x94."s;

Status AnswerTo(const std::string& pickle) {
  const auto answer = ReadNoticeAnswer(kKey, SignedFrame(kKey, pickle));
  return answer.value_or(Status(ErrorCode::kInternal, "more is wanted"));
}

TEST(NoticeTest, PickleIsThatOfTheSpec) {
  const std::string pickle = PickleNotice({1700000000, 3});
  EXPECT_EQ(pickle.size(), 94U);
  EXPECT_EQ(pickle,
            "\x80\x02"
            "chorovod.runner.elastic.worker\nHostsUpdatedRequest\n)\x81}(X\x09\0\0\0timestamp"
            "\x8a\x08\x00\xf1\x53\x65\0\0\0\0X\x03\0\0\0res"
            "K\x03"
            "ub."s);
}

TEST(NoticeTest, FrameIsSignedAsALiveServiceSignsIt) {
  const std::string frame = SignedFrame(kKey, PickleNotice({1700000000, 3}));
  EXPECT_EQ(Hex(frame.substr(0, 36)),
            "c33b8eea12acf4a95a7bcc9f72fbf1e7f710845c3b939bf7e909b99f753855cb5e000000");
  EXPECT_EQ(frame.size(), 36U + 94U);
  const std::string ping =
      "\x80\x02"
      "chorovod.runner.common.util.network\nPingRequest\n)\x81.";
  EXPECT_EQ(Hex(SignedFrame(kKey, ping).substr(0, 36)),
            "120fb50b71e66c05854167d44587167c3ae15c67c7b734ddc4ab110af85497b735000000");
}

TEST(NoticeTest, TimestampBeyond2038AndBelowZeroAreWhole) {
  EXPECT_NE(PickleNotice({int64_t{1} << 40, 1}).find("\x8a\x08\0\0\0\0\0\x01\0\0"s),
            std::string::npos);
  EXPECT_NE(PickleNotice({-1, 1}).find("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff"s),
            std::string::npos);
}

TEST(NoticeTest, AnswerOfALiveServiceIsTaken) {
  ASSERT_EQ(kAck.size(), 68U);
  EXPECT_TRUE(AnswerTo(kAck).ok()) << AnswerTo(kAck).ToString();
  // As protocol 2 writes it, and with a state that is empty.
  const std::string old =
      "\x80\x02"s + "chorovod.runner.common.util.network\nAckResponse\n)\x81}b.";
  EXPECT_TRUE(AnswerTo(old).ok()) << AnswerTo(old).ToString();
}

TEST(NoticeTest, EveryBeginningOfAnAnswerWantsMore) {
  const std::string frame = SignedFrame(kKey, kAck);
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(ReadNoticeAnswer(kKey, frame.substr(0, size)).has_value()) << size;
  }
  EXPECT_TRUE(ReadNoticeAnswer(kKey, frame).has_value());
}

TEST(NoticeTest, AnswerSignedByAnotherKeyIsRefusedUnread) {
  const auto answer = ReadNoticeAnswer(kKey, SignedFrame(KeyOf(0x6c), kAck));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code(), ErrorCode::kProtocolError);
  EXPECT_NE(answer->message().find("not signed"), std::string::npos) << answer->message();
}

TEST(NoticeTest, EveryFlippedBitOfAnAnswerIsNoticed) {
  const std::string frame = SignedFrame(kKey, kAck);
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string bent = frame;
    bent[bit / 8] = static_cast<char>(bent[bit / 8] ^ (1 << bit % 8));
    const auto answer = ReadNoticeAnswer(kKey, bent);
    EXPECT_FALSE(answer.has_value() && answer->ok()) << bit;
  }
}

TEST(NoticeTest, LengthIsCheckedBeforeAnythingIsAwaited) {
  const std::string digest(32, 'd');
  for (const std::string& length : {"\xff\xff\xff\xff"s, "\xff\xff\xff\x7f"s, "\x01\x10\0\0"s}) {
    const auto answer = ReadNoticeAnswer(kKey, digest + length);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->code(), ErrorCode::kProtocolError);
  }
  EXPECT_FALSE(ReadNoticeAnswer(kKey, digest + "\x00\x10\0\0"s).has_value());
  const auto behind = ReadNoticeAnswer(kKey, SignedFrame(kKey, kAck) + "x");
  ASSERT_TRUE(behind.has_value());
  EXPECT_FALSE(behind->ok());
}

TEST(NoticeTest, SignedAnswersThatCouldRunCodeAreRefused) {
  const std::string proto = "\x80\x04";
  for (const std::string& pickle :
       {proto + "cos\nsystem\n(\x8c\x02id\x85R.",      // REDUCE
        proto + "cos\nsystem\n)\x81.",                 // another class
        proto + "\x8c\x02os\x8c\x06system\x93)\x81.",  // STACK_GLOBAL
        proto + "chorovod.runner.common.util.network\nAckStreamResponse\n)\x81.",
        proto + "chorovod.runner.common.util.network\nAckResponse\n.",  // the class itself
        proto + "chorovod.runner.common.util.network\nAckResponse\n\x8c\x01x\x85\x81.",
        proto + "chorovod.runner.common.util.network\nAckResponse\n)R.",
        proto + "chorovod.runner.common.util.network\nAckResponse",  // cut off
        proto + "chorovod.runner.common.util.network\nAckResponse\n)\x81]b.", proto + "}}b.",
        proto + "]]\x93.", proto + "\x93.", proto + "\x81.", proto + "b.", proto + "))\x81.",
        proto + "].", ""s}) {
    const Status answer = AnswerTo(pickle);
    EXPECT_EQ(answer.code(), ErrorCode::kProtocolError) << Hex(pickle) << answer.ToString();
  }
}

TEST(NoticeTest, ARegistrationMayStillNameNoClass) {
  EXPECT_EQ(ReadWorkerAddresses(kAck).status().code(), ErrorCode::kKvRejected);
  PickleMachine machine(kAck);
  EXPECT_FALSE(machine.Run());
  EXPECT_TRUE(NamesFacts(machine.Refused().message(), {"opcode 0x93", "not accepted"}))
      << machine.Refused().message();
}

}  // namespace
}  // namespace hvdray
