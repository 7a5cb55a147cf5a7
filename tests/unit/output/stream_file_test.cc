// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/stream_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

#include "base/fd.h"
#include "launcher/report/job_output.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

class StreamFileTest : public testing::Test {
 protected:
  std::string Text() {
    std::ostringstream text;
    text << std::ifstream(directory_ / "stream", std::ios::binary).rdbuf();
    return text.str();
  }

  const TempDirectory directory_;
  const UniqueFd file_{::open((directory_ / "stream").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
};

TEST_F(StreamFileTest, ARecordIsItsKindItsLengthAndItsBytes) {
  EXPECT_EQ(AppendRecord(file_.get(), RecordKind::kStdout, "ab"), 0);
  EXPECT_EQ(AppendRecord(file_.get(), RecordKind::kEnd, ""), 0);
  EXPECT_EQ(Text(), std::string("\1\2\0\0\0ab\3\0\0\0\0", 12));
  EXPECT_EQ(FormatRecordHeader(RecordKind::kStderr, 0x01020304), "\2\4\3\2\1");
}

// A full disk, as far as one file goes.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    was_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, was_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t was_ = nullptr;
};

TEST_F(StreamFileTest, ARecordThatDoesNotFitLeavesNothingSoThatASmallerOneDoes) {
  ASSERT_EQ(AppendRecord(file_.get(), RecordKind::kStdout, "before"), 0);
  const FileLimit limit(100);
  EXPECT_EQ(AppendRecord(file_.get(), RecordKind::kStdout, std::string(200, 'x')), EFBIG);
  EXPECT_EQ(AppendRecord(file_.get(), RecordKind::kEnd, "{}"), 0);
  EXPECT_EQ(Text(), std::string("\1\6\0\0\0before\3\2\0\0\0{}", 18));
}

TEST_F(StreamFileTest, ADescriptorThatCannotBeWrittenToIsAnError) {
  EXPECT_EQ(AppendRecord(-1, RecordKind::kStdout, "x"), EBADF);
}

TEST_F(StreamFileTest, OutputOfAJobGoesThereInItsOrder) {
  auto loop = std::move(*Loop::Create());
  JobOutputOptions options;
  options.record_fd = file_.get();
  uint32_t consumed = 0;
  JobOutputHandlers handlers;
  handlers.on_consumed = [&consumed](int /*rank*/, uint32_t bytes) { consumed += bytes; };
  handlers.on_reader_gone = [] { ADD_FAILURE(); };
  handlers.on_damaged = [](const Status& why) { ADD_FAILURE() << why.ToString(); };
  auto output = JobOutput::Open(*loop, options, handlers);
  ASSERT_TRUE(output.ok());
  (*output)->OnOutput(3, wire::StreamId::kStdout, "out\n\xff\n", false);
  (*output)->OnOutput(3, wire::StreamId::kStderr, "err\n", false);
  (*output)->Say("ours");
  (*output)->OnOutput(3, wire::StreamId::kStdout, "more\n", true);
  std::optional<Status> drained;
  (*output)->Drain(std::nullopt, [&drained](Status status) { drained = std::move(status); });
  ASSERT_TRUE(RunUntil(*loop, [&] { return drained.has_value(); }));
  EXPECT_TRUE(drained->ok());
  EXPECT_EQ(consumed, 15U);
  const auto record = [](RecordKind kind, const std::string& bytes) {
    return FormatRecordHeader(kind, bytes.size()) + bytes;
  };
  const auto of_3 = [&record](RecordKind stream, uint64_t length) {
    return record(RecordKind::kPlaces, FormatPlaces({stream, 1, {{3, length, false}}}));
  };
  EXPECT_EQ(Text(), of_3(RecordKind::kStdout, 30) +
                        record(RecordKind::kStdout, "[3]<stdout>:out\n[3]<stdout>:\xff\n") +
                        of_3(RecordKind::kStderr, 16) +
                        record(RecordKind::kStderr, "[3]<stderr>:err\n") +
                        record(RecordKind::kStderr, "ours\n") + of_3(RecordKind::kStdout, 17) +
                        record(RecordKind::kStdout, "[3]<stdout>:more\n"));
}

TEST_F(StreamFileTest, AFileThatTakesNoMoreIsDamageAndDoesNotStopTheJob) {
  auto loop = std::move(*Loop::Create());
  JobOutputOptions options;
  options.record_fd = file_.get();
  uint32_t consumed = 0;
  std::vector<Status> damage;
  JobOutputHandlers handlers;
  handlers.on_consumed = [&consumed](int /*rank*/, uint32_t bytes) { consumed += bytes; };
  handlers.on_reader_gone = [] { ADD_FAILURE(); };
  handlers.on_damaged = [&damage](Status why) { damage.push_back(std::move(why)); };
  auto output = JobOutput::Open(*loop, options, handlers);
  ASSERT_TRUE(output.ok());
  const FileLimit limit(100);
  (*output)->OnOutput(0, wire::StreamId::kStdout, std::string(200, 'x') + "\n", false);
  ASSERT_TRUE(RunUntil(*loop, [&] { return !damage.empty(); }));
  EXPECT_EQ(damage[0].code(), ErrorCode::kOutputLost);
  EXPECT_EQ(consumed, 201U) << "the worker must not wait for ever";
  EXPECT_EQ(Text(), "") << "no places of bytes that are not there";
}

}  // namespace
}  // namespace hvdray
