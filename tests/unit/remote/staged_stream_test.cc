// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "cluster/transport/agent_bootstrap.h"
#include "tests/fakes/fake_stream.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/stream_owner.h"

namespace hvdray {
namespace {

class StagedStreamTest : public testing::Test {
 protected:
  StagedStreamTest() : loop_(std::move(*Loop::Create())) {
    auto [stream, wire] = FakeWire::Make();
    wire_ = wire;
    staged_ = std::make_unique<StagedStream>(*loop_, std::move(stream));
  }
  void Scan() {
    StagedStream::ScanHandlers handlers;
    handlers.on_line = [this](const BootstrapLine& line) { lines_.push_back(line); };
    handlers.on_closed = [this](Status why) { scan_closed_.push_back(std::move(why)); };
    staged_->Scan(std::move(handlers));
  }
  void Start() {
    StreamFunctions handlers;
    handlers.on_data = [this](ByteView bytes) { data_ += bytes; };
    handlers.on_closed = [this](Status why) { closed_.push_back(std::move(why)); };
    StartStream(*staged_, std::move(handlers));
  }

  std::unique_ptr<Loop> loop_;
  std::shared_ptr<FakeWire> wire_;
  std::unique_ptr<StagedStream> staged_;
  std::vector<BootstrapLine> lines_;
  std::vector<Status> scan_closed_;
  std::string data_;
  std::vector<Status> closed_;
};

const std::string kAgent = "HVDRAY-AGENT/1 7 00\n";

TEST_F(StagedStreamTest, ByteByByteTheUserSeesNoiseAnnouncementAndTheRest) {
  Scan();
  wire_->Deliver("motd\nHVDRAY-STAGE/1 Linux x86_64 /d\nmore\n" + kAgent + "frames", 1);
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0].kind, BootstrapLine::Kind::kNeedsAgent);
  EXPECT_EQ(lines_[1].kind, BootstrapLine::Kind::kAgentSpeaks);
  EXPECT_FALSE(wire_->is_reading()) << "nothing is read for a user that is not there yet";
  Start();
  EXPECT_TRUE(data_.empty()) << "never from within Start()";
  Settle(*loop_);
  EXPECT_EQ(data_, "motd\nmore\n" + kAgent) << "our own lines are not for it";
  EXPECT_TRUE(wire_->is_reading());
  wire_->Flush();
  EXPECT_EQ(data_, "motd\nmore\n" + kAgent + "frames");
  staged_->Write("x");
  EXPECT_EQ(wire_->TakeSent(), "x");
}

TEST_F(StagedStreamTest, ACloseBeforeTheAgentIsTheScannersAndLaterTheUsers) {
  Scan();
  wire_->Close(Status());
  EXPECT_EQ(scan_closed_.size(), 1U);

  auto [stream, wire] = FakeWire::Make();
  staged_ = std::make_unique<StagedStream>(*loop_, std::move(stream));
  scan_closed_.clear();
  Scan();
  wire->Deliver(kAgent);
  wire->Close({ErrorCode::kAgentLost, "gone"});
  EXPECT_TRUE(scan_closed_.empty());
  Start();
  Settle(*loop_);
  EXPECT_EQ(data_, kAgent);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].message(), "gone");
}

TEST_F(StagedStreamTest, EndlessNoiseIsAnErrorWithinItsLimit) {
  Scan();
  const std::string line(1000, 'x');
  for (int i = 0; i < 70 && scan_closed_.empty(); ++i) wire_->Deliver(line + "\n");
  ASSERT_EQ(scan_closed_.size(), 1U);
  EXPECT_EQ(scan_closed_[0].code(), ErrorCode::kProtocolError);
}

TEST_F(StagedStreamTest, ANeverEndingLineIsAnErrorToo) {
  Scan();
  for (int i = 0; i < 70 && scan_closed_.empty(); ++i) wire_->Deliver(std::string(1000, 'x'));
  EXPECT_EQ(scan_closed_.size(), 1U);
}

TEST_F(StagedStreamTest, AUserThatPausesGetsItsBytesLater) {
  Scan();
  wire_->Deliver(kAgent);
  Start();
  staged_->SetReading(false);
  Settle(*loop_);
  EXPECT_TRUE(data_.empty());
  staged_->SetReading(true);
  Settle(*loop_);
  EXPECT_EQ(data_, kAgent);
}

TEST_F(StagedStreamTest, TheHandlerMayDestroyIt) {
  StagedStream::ScanHandlers handlers;
  handlers.on_line = [this](const BootstrapLine&) { staged_.reset(); };
  handlers.on_closed = [](const Status&) { FAIL(); };
  staged_->Scan(std::move(handlers));
  wire_->Deliver("HVDRAY-FAILED/1 no\nHVDRAY-FAILED/1 again\n");
  EXPECT_EQ(staged_, nullptr);
  EXPECT_TRUE(wire_->is_destroyed());
}

}  // namespace
}  // namespace hvdray
