// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/stdin_feeder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "base/fd.h"

namespace hvdray {
namespace {

class StdinFeederTest : public testing::Test {
 protected:
  StdinFeederTest() : loop_(std::move(*Loop::Create())) {}

  void Make(int fd) {
    feeder_ = std::make_unique<StdinFeeder>(*loop_, fd, 4, [this](wire::Stdin frame) {
      EXPECT_EQ(frame.rank, 4);
      EXPECT_LE(frame.bytes.size(), 64U * 1024);
      bytes_ += frame.bytes;
      if (frame.is_end) ++ends_;
      if (frame.is_end || bytes_.size() == stop_at_) loop_->Stop();
    });
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<StdinFeeder> feeder_;
  std::string bytes_;
  size_t stop_at_ = SIZE_MAX;
  int ends_ = 0;
};

TEST_F(StdinFeederTest, ReadsNoMoreThanTheCredit) {
  Pipe pipe = std::move(*MakePipe());
  ASSERT_TRUE(WriteAll(pipe.write_end.get(), std::string(1000, 'x')).ok());
  Make(pipe.read_end.get());
  stop_at_ = 300;
  feeder_->AddCredit(300);
  loop_->Run();
  EXPECT_EQ(bytes_.size(), 300U);
  int left = 0;
  ASSERT_EQ(::fcntl(pipe.read_end.get(), F_GETFL) >= 0, true);
  std::string rest(2000, '\0');
  left = static_cast<int>(::read(pipe.read_end.get(), rest.data(), rest.size()));
  EXPECT_EQ(left, 700);
}

TEST_F(StdinFeederTest, SendsTheEndOnce) {
  Pipe pipe = std::move(*MakePipe());
  ASSERT_TRUE(WriteAll(pipe.write_end.get(), "last words").ok());
  pipe.write_end.Reset();
  Make(pipe.read_end.get());
  feeder_->AddCredit(1 << 20);
  loop_->Run();
  EXPECT_EQ(bytes_, "last words");
  EXPECT_EQ(ends_, 1);
  feeder_->AddCredit(1);  // no more input
  loop_->Post([this] { loop_->Stop(); });
  loop_->Run();
  EXPECT_EQ(ends_, 1);
}

TEST_F(StdinFeederTest, ReadsRegularFilesWhole) {
  char name[] = "/tmp/hvdray_stdin_XXXXXX";
  const UniqueFd file(::mkstemp(name));
  ::unlink(name);
  std::string data(300'000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  ASSERT_TRUE(WriteAll(file.get(), data).ok());
  ::lseek(file.get(), 0, SEEK_SET);
  Make(file.get());
  feeder_->AddCredit(1 << 20);
  loop_->Run();
  EXPECT_EQ(bytes_, data);
  EXPECT_EQ(ends_, 1);
}

}  // namespace
}  // namespace hvdray
