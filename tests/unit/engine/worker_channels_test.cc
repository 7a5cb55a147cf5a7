// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_channels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

class WorkerChannelsTest : public testing::Test, private WorkerChannels::Owner {
 protected:
  void Say(int worker, std::string_view line) { channels_.Feed(worker, std::string(line) + "\n"); }
  /// What was told since the last call.
  std::vector<std::string> Told() { return std::exchange(told_, {}); }
  /// Why a new worker that says this breaks the rules; ok: it doesn't.
  Status FaultOf(std::string_view line) {
    const int worker = next_++;
    faults_.clear();
    Say(worker, line);
    EXPECT_LE(faults_.size(), 1U);
    if (faults_.empty()) return {};
    EXPECT_EQ(faults_.begin()->first, worker);
    EXPECT_EQ(faults_.begin()->second.code(), ErrorCode::kProtocolError);
    return faults_.begin()->second;
  }

  WorkerChannels channels_{*this};
  bool has_room_ = true;
  std::vector<std::string> told_;
  std::vector<std::pair<int, Status>> faults_;
  int next_ = 100;

 private:
  void OnHello(int worker, const Json& hello) override {
    told_.push_back(fmt::format("{} hello {}", worker, DumpJson(hello)));
  }
  void OnReport(int worker, uint32_t number, const Json& metrics) override {
    told_.push_back(fmt::format("{} report {} {}", worker, number, DumpJson(metrics)));
  }
  void OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) override {
    told_.push_back(fmt::format("{} data {} '{}' {} of {}", worker, DumpJson(data), piece, at, of));
  }
  void OnViolation(int worker, const Status& why) override {
    told_.push_back(fmt::format("{} violation", worker));
    faults_.emplace_back(worker, why);
  }
  void SendBytes(int worker, wire::Stdin frame) override {
    told_.push_back(fmt::format("{} gets {}", worker, frame.bytes.size()));
  }
  void SendObject(int worker, int64_t object) override {
    told_.push_back(fmt::format("{} gets object {}", worker, object));
  }
  void OnDropped(int64_t object) override { told_.push_back(fmt::format("drop {}", object)); }
  bool HasRoom() const override { return has_room_; }
  void GrantRead(int worker, uint32_t bytes) override {
    told_.push_back(fmt::format("{} may send {}", worker, bytes));
  }
};

TEST_F(WorkerChannelsTest, ReportsAreNumberedByWorker) {
  Say(0, R"({"type":"report","metrics":{"loss":0.5}})");
  Say(7, R"({"type":"report","metrics":{}})");
  Say(0, R"({"type":"report","metrics":{"loss":0.25},"later":[{}]})");
  EXPECT_EQ(Told(), (std::vector<std::string>{R"(0 report 1 {"loss":0.5})", "7 report 1 {}",
                                              R"(0 report 2 {"loss":0.25})"}));
}

TEST_F(WorkerChannelsTest, CreditWaitsForRoom) {
  const std::string report = "{\"type\":\"report\",\"metrics\":{}}\n";  // 31 bytes
  const auto take = [&](int worker, std::string_view bytes, bool is_end = false) {
    channels_.Take({worker, wire::StreamId::kChannel, is_end, std::string(bytes)});
  };
  take(1, report);
  EXPECT_EQ(Told(), (std::vector<std::string>{"1 report 1 {}", "1 may send 31"}));
  has_room_ = false;
  take(2, report);
  take(1, report);
  take(1, report.substr(0, 4));
  take(1, "", true);
  EXPECT_EQ(Told(), (std::vector<std::string>{"2 report 1 {}", "1 report 2 {}"}));
  has_room_ = true;
  channels_.GrantWithheld();
  EXPECT_EQ(Told(), (std::vector<std::string>{"1 may send 35", "2 may send 31"}));
  channels_.GrantWithheld();
  has_room_ = false;
  take(2, report);
  channels_.Clear();
  channels_.GrantWithheld();
  EXPECT_EQ(Told(), (std::vector<std::string>{"2 report 2 {}"}));
}

TEST_F(WorkerChannelsTest, AnObjectIsDroppedBehindThoseWhoWaitForIt) {
  const auto window = std::make_shared<const std::string>(wire::kOutputWindowBytes, 'x');
  for (const int worker : {0, 1}) channels_.Write(worker, window);
  (void)Told();
  channels_.DropObject(4);
  EXPECT_EQ(Told(), std::vector<std::string>{"drop 4"});
  const auto more = std::make_shared<const std::string>("more");
  for (const int worker : {0, 1}) {
    channels_.Write(worker, more);
    channels_.Give(worker, 5);
  }
  channels_.DropObject(5);
  EXPECT_TRUE(Told().empty()) << "they have no credit";
  channels_.AddCredit(1, 4);
  EXPECT_EQ(Told(), (std::vector<std::string>{"1 gets 4", "1 gets object 5"}));
  channels_.Drop(0);
  EXPECT_EQ(Told(), std::vector<std::string>{"drop 5"});
  channels_.Write(1, more);
  channels_.Give(1, 6);
  channels_.DropObject(6);
  channels_.Clear();
  EXPECT_EQ(Told(), std::vector<std::string>{"drop 6"}) << "and once";
}

TEST_F(WorkerChannelsTest, ANewGenerationBeginsAnew) {
  Say(0, R"({"type":"hello","protocol":1})");
  Say(0, R"({"type":"report","metrics":{}})");
  channels_.Feed(0, R"({"type":"rep)");
  Say(1, "no message");
  (void)Told();
  channels_.Clear();
  Say(0, R"({"type":"hello","protocol":1})");
  Say(0, R"({"type":"report","metrics":{}})");
  Say(1, R"({"type":"report","metrics":{}})");
  EXPECT_EQ(Told(), (std::vector<std::string>{R"(0 hello {"type":"hello","protocol":1})",
                                              "0 report 1 {}", "1 report 1 {}"}));
}

TEST_F(WorkerChannelsTest, AnEndForgetsWhatItCutsOff) {
  channels_.Feed(0, R"({"type":"rep)");
  channels_.Feed(1, "{\"type\":\"data\",\"blob\":9}\nxx");
  Say(2, "no message");
  (void)Told();
  for (const int worker : {0, 1, 2, 77}) channels_.End(worker);
  EXPECT_TRUE(Told().empty()) << "that is no violation";
  for (const int worker : {0, 1, 2}) Say(worker, R"({"type":"report","metrics":{}})");
  EXPECT_EQ(Told(), (std::vector<std::string>{"0 report 1 {}", "1 report 1 {}", "2 report 1 {}"}));
}

TEST_F(WorkerChannelsTest, MetricsAreObjectsOfPlainValuesHoweverDeep) {
  for (const char* metrics :
       {R"({})", R"({"a":1})", R"({"a":-1.5e300,"b":"x","c":true,"d":null})",
        R"({"loss":"NaN","high":"Infinity","low":"-Infinity"})", R"({"a":{"b":{"c":1}},"d":{}})"}) {
    const std::string line = fmt::format(R"({{"type":"report","metrics":{}}})", metrics);
    EXPECT_TRUE(FaultOf(line).ok()) << metrics;
  }
  for (const char* metrics :
       {"[]", "1", "\"x\"", "null", "true", R"({"a":[1]})", R"({"a":{"b":[]}})", R"({"a":NaN})",
        R"({"a":Infinity})", R"({"a":1e999})"}) {
    const std::string line = fmt::format(R"({{"type":"report","metrics":{}}})", metrics);
    ExpectError(FaultOf(line), ErrorCode::kProtocolError, {});
  }
  ExpectError(FaultOf(R"({"type":"report"})"), ErrorCode::kProtocolError, {"metrics"});
}

TEST_F(WorkerChannelsTest, MetricsEndAt64KiB) {
  const auto report = [](size_t bytes) {
    return R"({"type":"report","metrics":{"a":")" + std::string(bytes - 8, 'x') + "\"}}";
  };
  EXPECT_TRUE(FaultOf(report(kMaxMetricsBytes)).ok());
  ExpectError(FaultOf(report(kMaxMetricsBytes + 1)), ErrorCode::kProtocolError, {"64 KiB"});
}

TEST_F(WorkerChannelsTest, AHelloNamesTheProtocolAndComesOnce) {
  Say(3, R"({"type":"hello","protocol":1,"client":"x 1","python":"3.11"})");
  EXPECT_EQ(Told(), std::vector<std::string>{
                        R"(3 hello {"type":"hello","protocol":1,"client":"x 1","python":"3.11"})"});
  Say(3, R"({"type":"hello","protocol":1})");
  EXPECT_EQ(Told(), std::vector<std::string>{"3 violation"});
  for (const char* line :
       {R"({"type":"hello"})", R"({"type":"hello","protocol":2})",
        R"({"type":"hello","protocol":"1"})", R"({"type":"hello","protocol":null})"}) {
    ExpectError(FaultOf(line), ErrorCode::kProtocolError, {"protocol", "1"});
  }
}

TEST_F(WorkerChannelsTest, DataIsTakenApartAndKeepsItsHead) {
  Say(0, R"({"type":"data","data":{"of":3}})");
  Say(1, R"({"type":"data","blob":0})");
  EXPECT_EQ(Told(),
            (std::vector<std::string>{R"(0 data {"of":3} '' 0 of 0)", "1 data null '' 0 of 0"}));
  channels_.Feed(0, "{\"type\":\"data\",\"data\":7,\"blob\":5}\nab");
  channels_.Feed(1, "{\"type\":\"data\",\"blob\":1}\n");
  channels_.Feed(0, "c");
  channels_.Feed(1, "\n");
  channels_.Feed(0, "de{\"type\":\"report\",\"metrics\":{}}\n");
  EXPECT_EQ(Told(), (std::vector<std::string>{"0 data 7 'ab' 0 of 5", "0 data 7 'c' 2 of 5",
                                              "1 data null '\n' 0 of 1", "0 data 7 'de' 3 of 5",
                                              "0 report 1 {}"}));
}

TEST_F(WorkerChannelsTest, OnlyDataHasABlob) {
  ExpectError(FaultOf(R"({"type":"report","metrics":{},"blob":1})"), ErrorCode::kProtocolError,
              {"report", "blob"});
  ExpectError(FaultOf(R"({"type":"hello","protocol":1,"blob":1})"), ErrorCode::kProtocolError, {});
  EXPECT_TRUE(FaultOf(R"({"type":"report","metrics":{},"blob":0})").ok());
  ExpectError(FaultOf(R"({"type":"data","blob":-1})"), ErrorCode::kProtocolError, {"blob"});
}

TEST_F(WorkerChannelsTest, WhatIsNoMessageOrOfNoKnownTypeIsAViolation) {
  ExpectError(FaultOf("loss 0.3"), ErrorCode::kProtocolError, {});
  ExpectError(FaultOf(""), ErrorCode::kProtocolError, {});
  ExpectError(FaultOf(R"({"type":"object"})"), ErrorCode::kProtocolError, {"object"});
  ExpectError(FaultOf(R"({"type":""})"), ErrorCode::kProtocolError, {});
}

TEST_F(WorkerChannelsTest, ATypeIsShownShortAndWithoutControlBytes) {
  const Status status =
      FaultOf(fmt::format(R"({{"type":"\u001b[2J\n{}"}})", std::string(1000, 'x')));
  EXPECT_EQ(status.message().find_first_of("\x1b\n"), std::string::npos) << status.ToString();
  EXPECT_LT(status.message().size(), 200U);
  // Nor is a character cut in two.
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xe2\x82\xac";
  for (const std::string& type : {wide, "x" + wide, "xx" + wide}) {
    const Status cut = FaultOf(fmt::format(R"({{"type":"{}"}})", type));
    EXPECT_EQ(DumpJson(Json(std::string(cut.message()))).find("\xef\xbf\xbd"), std::string::npos);
  }
}

TEST_F(WorkerChannelsTest, AViolationIsToldOnceAndEndsThatWorkerAlone) {
  Say(0, "no message");
  Say(0, "nor this");
  Say(0, R"({"type":"report","metrics":{}})");
  Say(1, R"({"type":"report","metrics":{}})");
  EXPECT_EQ(Told(), (std::vector<std::string>{"0 violation", "1 report 1 {}"}));
}

TEST_F(WorkerChannelsTest, WhatCameBeforeAViolationCounts) {
  channels_.Feed(0, "{\"type\":\"report\",\"metrics\":{}}\nno message\n{\"type\":\"data\"}\n");
  EXPECT_EQ(Told(), (std::vector<std::string>{"0 report 1 {}", "0 violation"}));
}

TEST(ChannelFaultTest, IsSaidToPeopleAndIsTheLastErrorOfItsWorker) {
  const Status why(ErrorCode::kProtocolError, "metrics of over 64 KiB");
  EXPECT_EQ(ChannelFaultText("rank 3", why),
            "rank 3 broke the rules of its channel and is killed: metrics of over 64 KiB");
  EXPECT_EQ(ChannelError(why).text, "broken channel: metrics of over 64 KiB");
}

}  // namespace
}  // namespace hvdray
