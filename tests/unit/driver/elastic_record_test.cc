// SPDX-License-Identifier: Apache-2.0
// Recordings: everything survives the round trip, jobs replay identically, and errors are reported
// with their line.
#include "launcher/driver/elastic_record.h"

#include <gtest/gtest.h>

#include <random>

#include "launcher/driver/elastic_mode.h"
#include "tests/fakes/effect_text.h"
#include "tests/fakes/elastic_random_job.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/unit/driver/recording.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/record.txt");

using std::chrono::seconds;

constexpr const char* kFirst = R"({"schema":"hvdray.record/1","build":"b","job_id":"j",)"
                               R"("jitter_seed":7,"policy":{"np":2,"min_np":1}})";

ElasticPolicy FullPolicy() {
  ElasticPolicy policy;
  policy.mode = ElasticMode::kGang;
  policy.np = 4;
  policy.min_np = 2;
  policy.max_np = 9;
  policy.reset_limit = 0;
  policy.max_restarts = 4'000'000'000;
  policy.cooldown = CooldownRange{seconds(2), seconds(30)};
  policy.success = SuccessRule::kAny;
  policy.join_retries = 5;
  policy.breaks_connections = false;
  policy.repairs_barriers = true;
  policy.join = JoinMode::kTogether;
  policy.notice_interval = Duration(1);
  policy.began_epoch_s = 1'800'000'000;
  policy.elastic_timeout = Duration(2);
  policy.start_timeout = Duration(3);
  policy.straggler_timeout = Duration(4);
  policy.grace = Duration(5);
  policy.timeout = Duration(6);
  policy.stop_margin = Duration(7);
  policy.leave_limit = Duration(8);
  policy.settle = Duration(9);
  policy.list_settle = Duration(11);
  policy.moment = Duration(10);
  policy.master_port = 65535;
  policy.last_generation = 4'000'000'000;
  policy.first_worker = 3;
  return policy;
}

Status ToStatus(const std::string& line) {
  RecordDecoder decoder("job.record");
  EXPECT_TRUE(decoder.Header(kFirst).ok());
  const Result<RecordLine> result = decoder.Next(line);
  return result.ok() ? Status() : result.status();
}

/// Expects that the second line is refused at `origin`: the place and, where there is one, the
/// field.
void ExpectBadLine(const std::string& line, std::string_view origin) {
  ExpectFault(line, ToStatus(line), ErrorCode::kSpecInvalid, origin);
}

TEST(ElasticRecordTest, EverySettingComesBack) {
  const RecordHeader header{"hvdray 1.2.3 (abc)", "job", FullPolicy(), ~uint64_t{0}};
  const std::string text = EncodeHeader(header);
  RecordDecoder decoder("job.record");
  const RecordHeader back = decoder.Header(text).value();
  EXPECT_EQ(EncodeHeader(back), text);
  EXPECT_EQ(back.build, header.build);
  EXPECT_EQ(back.job_id, "job");
  EXPECT_EQ(back.jitter_seed, ~uint64_t{0});
  const ElasticPolicy& policy = back.policy;
  EXPECT_EQ(policy.mode, ElasticMode::kGang);
  EXPECT_EQ(policy.max_np, 9);
  EXPECT_EQ(policy.reset_limit, 0u);
  EXPECT_EQ(policy.max_restarts, 4'000'000'000);
  EXPECT_EQ(policy.cooldown, header.policy.cooldown);
  EXPECT_EQ(policy.success, SuccessRule::kAny);
  EXPECT_EQ(policy.join, JoinMode::kTogether);
  EXPECT_FALSE(policy.breaks_connections);
  EXPECT_EQ(policy.settle, Duration(9));
  EXPECT_EQ(policy.list_settle, Duration(11));
  EXPECT_EQ(policy.moment, Duration(10));
  EXPECT_EQ(policy.leave_limit, Duration(8));
  EXPECT_EQ(policy.master_port, 65535);
  EXPECT_EQ(policy.last_generation, 4'000'000'000U);
  EXPECT_EQ(policy.first_worker, 3U);
}

// A new setting of the policy must be added to the recording, too.
TEST(ElasticRecordTest, NoSettingIsForgotten) {
  const auto full = ParseJson(EncodeHeader({"b", "j", FullPolicy(), 1})).value()["policy"];
  const auto plain = ParseJson(EncodeHeader({"b", "j", ElasticPolicy{}, 1})).value()["policy"];
  for (const auto& [key, value] : full.items()) EXPECT_NE(value, plain[key]) << key;
  EXPECT_EQ(full.size(), 27u);
  EXPECT_EQ(sizeof(ElasticPolicy), 184u) << "a new setting? it belongs into elastic_record.cc";
}

class RandomEvents {
 public:
  explicit RandomEvents(uint64_t seed) : random_(seed) {}
  ElasticEvent Next(size_t kind) {
    switch (kind) {
      case 0:
        return event::HostsDiscovered{Hosts(), Coin()};
      case 1:
        return event::DiscoveryFailed{Why()};
      case 2: {
        event::HostReady ready{Number<int>(), {}};
        ready.facts.host_name = Text();
        ready.facts.offered_port = Number<uint16_t>();
        return ready;
      }
      case 3:
        return event::HostLost{Number<int>(), Why()};
      case 4:
        return event::ProcessStarted{Number<uint32_t>(), Number<uint32_t>()};
      case 5: {
        const auto stage = static_cast<wire::ExecStage>(random_() % 6);
        return event::ProcessExited{
            Number<uint32_t>(),
            {static_cast<int32_t>(random_() % 256), static_cast<int32_t>(random_() % 65), Coin(),
             Coin(), stage, Number<int32_t>()}};
      }
      case 6: {
        const char* words[] = {"", "Connection reset by peer"};
        event::ProcessErred erred{Number<uint32_t>(),
                                  {Coin() ? "an error" : "", words[random_() % 2]}};
        if (Coin()) erred.age = Duration(Number<uint16_t>());
        return erred;
      }
      case 7:
        return event::WorkerArrived{Number<uint32_t>()};
      case 8:
        return event::WorkerMet{Number<uint32_t>()};
      case 9:
        return event::WorkerConnected{Number<uint32_t>()};
      case 10:
        return event::RankAsked{Number<uint32_t>()};
      case 11:
        return event::AddressesRegistered{Number<uint32_t>()};
      case 12:
        return event::HostCopying{Number<int>()};
      case 13:
        return event::HostLeaving{Number<int>(), Duration(Number<int>())};
      case 14:
        return event::GenerationStopped{Number<uint32_t>(), Number<int>(), Number<uint32_t>(),
                                        Number<uint16_t>()};
      case 15:
        return event::UserSignal{1 + static_cast<int>(random_() % 64)};
      case 16:
        return event::ReaderGone{};
      case 17:
        return event::OutputDamaged{Why()};
      case 18:
        return event::OutputBlocked{Coin()};
      case 19:
        return event::Dismissed{Duration(Number<uint16_t>())};
      default:
        return event::Tick{};
    }
  }

 private:
  template <typename T>
  T Number() {
    return static_cast<T>(random_());
  }
  bool Coin() { return random_() % 2 == 0; }
  std::string Text() {
    const char* texts[] = {"", "plain", "\"quoted\" \\ / \n \x01", "Gr\xc3\xbc\xc3\x9f", "{}[]"};
    return texts[random_() % 5];
  }
  Status Why() {
    const auto catalogue = ErrorCatalogue();
    const size_t index = random_() % (catalogue.size() + 1);
    return index == catalogue.size() ? Status() : Status(catalogue[index].code, Text(), Text());
  }
  std::vector<HostSlots> Hosts() {
    std::vector<HostSlots> hosts(random_() % 4);
    for (HostSlots& host : hosts) {
      host = {"node", static_cast<int>(random_() % 65537), {Text(), Text(), Number<uint16_t>()}};
    }
    return hosts;
  }
  std::mt19937_64 random_;
};

TEST(ElasticRecordTest, EveryKindOfEventComesBackWhateverIsInIt) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomEvents random(seed);
    RecordDecoder decoder("job.record");
    ASSERT_TRUE(decoder.Header(kFirst).ok());
    for (size_t kind = 0; kind < std::variant_size_v<ElasticEvent>; ++kind) {
      const ElasticEvent event = random.Next(kind);
      ASSERT_EQ(event.index(), kind);
      const std::string text = EncodeEvent(event, Duration(kind));
      const Result<RecordLine> line = decoder.Next(text);
      ASSERT_TRUE(line.ok()) << text << line.status().ToString();
      const auto& back = std::get<RecordedEvent>(*line);
      EXPECT_EQ(back.at, Duration(kind));
      EXPECT_EQ(back.event.index(), kind);
      EXPECT_EQ(EncodeEvent(back.event, back.at), text);
    }
  }
}

TEST(ElasticRecordTest, FieldsComeBackAsValuesNotOnlyAsText) {
  RecordDecoder decoder("job.record");
  ASSERT_TRUE(decoder.Header(kFirst).ok());
  const auto back = [&decoder](const ElasticEvent& event) {
    return std::get<RecordedEvent>(decoder.Next(EncodeEvent(event, seconds(1))).value()).event;
  };
  const std::vector<HostSlots> hosts = {{"a", 2, {"::1", "me", 22}}, {"b", 0}};
  EXPECT_EQ(std::get<event::HostsDiscovered>(back(event::HostsDiscovered{hosts, true})).hosts,
            hosts);
  const Status why(ErrorCode::kAgentLost, "it fell silent", "look there");
  EXPECT_EQ(std::get<event::HostLost>(back(event::HostLost{3, why})).why, why);
  const wire::ExitStatus status{0, 9, true, true, wire::ExecStage::kLimits, 12};
  EXPECT_EQ(std::get<event::ProcessExited>(back(event::ProcessExited{5, status})).status, status);
  EXPECT_EQ(std::get<event::HostLeaving>(back(event::HostLeaving{1, -seconds(3)})).in, -seconds(3));
}

TEST(ElasticRecordTest, OfAHostNothingIsKeptThatTheDriverDoesNotUse) {
  event::HostReady ready{0, {}};
  ready.facts = {.host_name = "node1",
                 .machine = "x86",
                 .system = "Linux",
                 .cpu_count = 64,
                 .agent_pid = 77,
                 .offered_port = 2000,
                 .cleanup = "cgroup"};
  ready.facts.interfaces.push_back({"eth0", {{"10.0.0.1", 24}}});
  EXPECT_EQ(EncodeEvent(ready, Duration(5)),
            R"({"t":5,"event":"host_ready","host":0,"host_name":"node1","offered_port":2000})");
}

// The purpose of recordings.
TEST(ElasticRecordTest, AJobRunsTheSameFromItsRecording) {
  int finished = 0;
  for (uint64_t seed = 20'001; seed <= 20'500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto sim = RandomJob(seed);
    finished += sim->Run(seconds(4000)) ? 1 : 0;
    const std::vector<std::string> lines = RecordingOf(*sim, seed);
    RecordDecoder decoder("job.record");
    const RecordHeader header = decoder.Header(lines[0]).value();
    const auto driver = MakeElasticDriver(header.policy, header.jitter_seed, TimePoint{});
    std::vector<ElasticEffect> effects;
    for (size_t i = 1; i < lines.size(); ++i) {
      const RecordLine line = decoder.Next(lines[i]).value();
      if (const auto* fact = std::get_if<RecordedEvent>(&line)) {
        for (auto& effect : driver->Handle(fact->event, TimePoint{} + fact->at)) {
          effects.push_back(std::move(effect));
        }
      } else {
        const Verdict& verdict = std::get<effect::Finish>(effects.back()).verdict;
        EXPECT_EQ(std::get<RecordedEnd>(line),
                  EndOf(verdict, driver->Snapshot(), std::get<RecordedEnd>(line).at));
      }
    }
    ASSERT_EQ(effects.size(), sim->effects().size());
    for (size_t i = 0; i < effects.size(); ++i) {
      ASSERT_EQ(EffectText(effects[i]), EffectText(sim->effects()[i]));
    }
    ASSERT_EQ(driver->state(), sim->driver().state());
    const Result<ReplayResult> replayed = Replayed(lines);
    ASSERT_TRUE(replayed.ok()) << replayed.status().ToString();
    EXPECT_TRUE(replayed->is_well());
    EXPECT_EQ(replayed->recorded_end, replayed->end);
  }
  EXPECT_EQ(finished, 500);
}

TEST(ElasticRecordTest, UnknownKeysAreIgnored) {
  EXPECT_TRUE(ToStatus(R"({"t":1,"event":"tick","later":{"a":[1]}})").ok());
}

TEST(ElasticRecordTest, WhatIsWrongIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "job.record:2"},
      {"\xff\xfe", "job.record:2"},
      {"[1]", "job.record:2"},
      {R"({"event":"tick"})", "job.record:2: t"},
      {R"({"t":-1,"event":"tick"})", "job.record:2: t"},
      {R"({"t":18446744073709551615,"event":"tick"})", "job.record:2: t"},
      {R"({"t":1.5,"event":"tick"})", "job.record:2: t"},
      {R"({"t":1,"event":"tock"})", "job.record:2: event"},
      {R"({"t":1,"event":7})", "job.record:2: event"},
      {R"({"t":1,"event":"rank_asked"})", "job.record:2: worker"},
      {R"({"t":1,"event":"rank_asked","worker":-1})", "job.record:2: worker"},
      {R"({"t":1,"event":"signal","signo":2147483647})", "job.record:2: signo"},
      {R"({"t":1,"event":"output_blocked","blocked":1})", "job.record:2: blocked"},
      {R"({"t":1,"event":"host_lost","host":1,"why":"gone"})", "job.record:2: why"},
      {R"({"t":1,"event":"host_lost","host":1,"why":{"code":"x","message":"","hint":""}})",
       "job.record:2: why.code"},
      {R"({"t":1,"event":"hosts_discovered","final":true,"hosts":{}})", "job.record:2: hosts"},
      {R"({"t":1,"event":"hosts_discovered","final":true,"hosts":[{"host":"a b","slots":1,)"
       R"("address":"","user":"","port":0}]})",
       "job.record:2: hosts[0].host"},
  };
  for (const auto& [line, origin] : cases) ExpectBadLine(line, origin);
}

TEST(ElasticRecordTest, HostsThatWouldEatTheMemoryAreRefused) {
  const std::string host = R"({"host":"a","slots":65536,"address":"","user":"","port":0})";
  std::string list = host;
  for (int i = 0; i < 16; ++i) list += "," + host;
  const Status status =
      ToStatus(R"({"t":1,"event":"hosts_discovered","final":true,"hosts":[)" + list + "]}");
  ExpectFault("17 hosts with 65536 slots each", status, ErrorCode::kSpecInvalid,
              "job.record:2: hosts[16].slots");
  EXPECT_TRUE(NamesFacts(status.message(), {"1048576 slots"})) << status.message();
}

TEST(ElasticRecordTest, TimeGoesForwardAndNothingFollowsTheEnd) {
  RecordDecoder decoder("job.record");
  ASSERT_TRUE(decoder.Header(kFirst).ok());
  ASSERT_TRUE(decoder.Next(EncodeEvent(event::Tick{}, Duration(5))).ok());
  ExpectFault("a tick at 5, then at 4",
              decoder.Next(EncodeEvent(event::Tick{}, Duration(4))).status(),
              ErrorCode::kSpecInvalid, "job.record:3");
  ASSERT_TRUE(decoder.Next(EncodeEnd({.at = Duration(5)})).ok());
  ExpectFault("the end, then a tick",
              decoder.Next(EncodeEvent(event::Tick{}, Duration(6))).status(),
              ErrorCode::kSpecInvalid, "job.record:5");
}

TEST(ElasticRecordTest, AFirstLineOfAnotherKindIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "f:1"},
      {R"({"schema":"hvdray.events/1"})", "f:1: schema"},
      {R"({"schema":"hvdray.record/1"})", "f:1: build"},
      {R"({"schema":"hvdray.record/1","build":"","job_id":"","jitter_seed":-1,"policy":{}})",
       "f:1: jitter_seed"},
      {R"({"schema":"hvdray.record/1","build":"","job_id":"","jitter_seed":1,)"
       R"("policy":{"mode":"solo"}})",
       "f:1: policy.mode"},
      {R"({"schema":"hvdray.record/1","build":"","job_id":"","jitter_seed":1,)"
       R"("policy":{"np":2,"min_np":3}})",
       "f:1: --min-np 3"},
  };
  for (const auto& [line, origin] : cases) {
    ExpectFault(line, RecordDecoder("f").Header(line).status(), ErrorCode::kSpecInvalid, origin);
  }
}

}  // namespace
}  // namespace hvdray
