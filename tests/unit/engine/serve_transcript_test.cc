// SPDX-License-Identifier: Apache-2.0
// Whole conversations of a client with `hvdray serve`, against golden files: what it says ("> "),
// and what the real launcher answers ("< ") over agents that the test plays. They are examples for
// docs/serve.md, and show each change of the protocol in a diff.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <set>
#include <sstream>

#include "base/message_stream.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/host_source.h"
#include "launcher/engine/open_job.h"
#include "tests/fakes/fake_transport.h"
#include "tests/fakes/golden.h"

namespace hvdray {
namespace {

/// The agent of one host and its workers, which answer what they get as channel_worker.py does.
class PlayedAgent {
 public:
  PlayedAgent(const std::string& host, FakeAgent& agent) : agent_(agent) {
    wire::HostFacts facts;
    facts.host_name = host;
    facts.offered_port = 4001;
    facts.agent_pid = 100;
    facts.cpu_count = 8;
    wire::InterfaceFacts lo;
    lo.name = "lo";
    lo.addresses = {{"127.0.0.1", 8}};
    lo.is_up = true;
    lo.is_loopback = true;
    facts.interfaces.push_back(lo);
    agent_.on_message = [this](const wire::Message& message) { On(message); };
    agent_.SayHello(facts);
  }

 private:
  struct Worker {
    Generation generation = 0;
    int rank = 0;
    std::unique_ptr<MessageReader> channel;
  };

  void On(const wire::Message& message) {
    if (const auto* start = std::get_if<wire::StartGeneration>(&message.body)) {
      for (const wire::WorkerSlot& slot : start->workers) Begin(message.generation, slot);
    } else if (const auto* in = std::get_if<wire::Stdin>(&message.body)) {
      const auto worker = workers_.find(in->rank);
      if (worker == workers_.end()) return;
      EXPECT_TRUE(worker->second.channel->Feed(in->bytes).ok());
    } else if (const auto* give = std::get_if<wire::GiveObject>(&message.body)) {
      Say(give->rank, {{"type", "data"}, {"data", {{"object", give->object}}}});
    } else if (const auto* warm = std::get_if<wire::Warm>(&message.body)) {
      const std::vector<std::string>& modules = warm->start.preload;
      const bool is_warm = std::find(modules.begin(), modules.end(), "nowhere") == modules.end();
      agent_.Send(0, wire::Warmed{.is_warm = is_warm,
                                  .why = is_warm ? "" : "no module named 'nowhere'",
                                  .took_ms = 250,
                                  .modules = modules});
    } else if (const auto* stop = std::get_if<wire::StopWorkers>(&message.body)) {
      for (const int32_t worker : stop->workers) End(worker, {.signal = SIGTERM}, true);
    } else if (std::holds_alternative<wire::StopGeneration>(message.body)) {
      while (!workers_.empty()) End(workers_.begin()->first, {.signal = SIGTERM}, true);
      agent_.Send(message.generation, wire::GenerationStopped{0, 5000});
    }
  }

  void Begin(Generation generation, const wire::WorkerSlot& slot) {
    const int name = slot.name();
    MessageReader::Handlers handlers;
    handlers.on_message = [this, name](std::string_view type, const Json& head, uint64_t) {
      if (type == "data") OnData(name, head.value("data", Json()));
      return Status();
    };
    handlers.on_blob = [](ByteView, uint64_t) { return Status(); };
    workers_[name] = {generation, slot.rank, std::make_unique<MessageReader>(handlers)};
    agent_.Send(generation, wire::WorkerStarted{name, 200U + static_cast<uint32_t>(name)});
    Say(name, {{"type", "hello"}, {"protocol", 1}, {"client", "played"}, {"python", "3.11.2"}});
  }

  void OnData(int name, const Json& data) {
    if (data.is_object() && data.contains("exit")) {
      const Worker& worker = workers_.at(name);
      agent_.Send(worker.generation,
                  wire::Output{name, wire::StreamId::kStderr, false, "ending as told\n"});
      return End(name, {.exit_code = data["exit"].get<int>()}, false);
    }
    if (data.is_object() && data.contains("report")) {
      return Say(name, {{"type", "report"}, {"metrics", data["report"]}});
    }
    Json answer = {{"type", "data"}, {"data", {{"got", data}}}};
    if (data == "blob") {
      answer["blob"] = 5;
      return Say(name, answer, "bytes");
    }
    Say(name, answer);
  }

  void Say(int name, const Json& head, const std::string& blob = {}) {
    agent_.Send(workers_.at(name).generation,
                wire::Output{name, wire::StreamId::kChannel, false, MessageLine(head) + blob});
  }

  void End(int name, const wire::ExitStatus& status, bool was_stopping) {
    const auto worker = workers_.find(name);
    if (worker == workers_.end()) return;
    agent_.Send(worker->second.generation, wire::WorkerExited{name, status, was_stopping});
    ended_.push_back(std::move(worker->second));
    workers_.erase(worker);
  }

  FakeAgent& agent_;
  std::map<int, Worker> workers_;
  std::vector<Worker> ended_;  // a reader may be at work
};

class LocalHosts final : public ElasticHosts {
 public:
  void AddHost(const HostSlots& /*host*/) override {}
  bool IsRemote(const std::string& /*host*/) const override { return false; }
  bool IsElsewhere(const std::string& /*host*/) const override { return false; }
};

class ServeTranscriptTest : public testing::Test {
 protected:
  ServeTranscriptTest() : loop_(std::move(*Loop::Create())), transport_(*loop_) {
    transport_.on_agent = [this](const std::string& host, FakeAgent& agent) {
      agents_.push_back(std::make_unique<PlayedAgent>(host, agent));
    };
    plan_.spec.command.Set({"worker"}, "test");
    plan_.spec.has_channel.Set(true, "test");
    plan_.spec.is_quiet.Set(true, "test");
    plan_.spec.grace.Set(std::chrono::seconds(5), "test");
    plan_.build = "hvdray test";
    // The launcher kills processes with its job's id: no other test may use the same one.
    plan_.job_id = "job-" + std::to_string(::getpid());
    plan_.began = loop_->Now();
    auto [ours, theirs] = MakeSocketPair().value();
    options_.socket = std::move(ours);
    options_.grace = std::chrono::seconds(5);
    options_.job_id = plan_.job_id;
    options_.build = plan_.build;
    client_ = std::move(theirs);
  }

  /// `script`: what the client says ("> …"), and for which messages it then waits ("< type").
  void Play(const std::string& name, const std::string& script) {
    Read(script);
    plan_.hosts = {{"a", 2}};
    plan_.is_remote = {false};
    plan_.ranks = AssignRanks(plan_.hosts, 2, 2).value();
    plan_.spec.np.Set(2, "test");
    Trace trace(plan_.began, {"a"}, false);
    auto launcher = OpenJob(*loop_, {transport_}, trace, plan_, std::move(options_));
    ASSERT_TRUE(launcher.ok()) << launcher.status().ToString();
    Run(**launcher, name);
  }

  void PlayElastic(const std::string& name, const std::string& script) {
    Read(script);
    LocalHosts hosts;
    plan_.spec.are_hosts_told.Set(true, "test");
    ToldHosts told(*loop_);
    Trace trace(plan_.began, {}, false);
    plan_.spec.np.Set(1, "test");
    plan_.spec.min_np.Set(1, "test");
    plan_.spec.elastic_mode.Set(ElasticMode::kGang, "test");
    auto launcher =
        OpenJob(*loop_, {transport_, &hosts, &told, &told}, trace, plan_, std::move(options_));
    ASSERT_TRUE(launcher.ok()) << launcher.status().ToString();
    Run(**launcher, name);
  }

  std::unique_ptr<Loop> loop_;
  FakeTransport transport_;
  std::vector<std::unique_ptr<PlayedAgent>> agents_;
  LaunchPlan plan_;

 private:
  void Read(const std::string& script) {
    std::istringstream lines(script);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) script_.push_back(line);
    }
  }

  void Run(Launcher& launcher, const std::string& name) {
    // A played agent's carrier ends with its link.
    const Watch exits = loop_->Every(std::chrono::milliseconds(5), [this] {
      for (auto& [host, agent] : transport_.agents) {
        if (!agent->closed.empty()) transport_.Exit(host, Status());
      }
    });
    const Watch limit = loop_->After(std::chrono::seconds(30), [&] {
      ADD_FAILURE() << name << ": never came: " << (script_.empty() ? "the end" : script_.front());
      launcher.StopBy(SIGTERM);
    });
    hearing_ = loop_->OnFd(client_.get(), FdEvent::kRead, [this] { Hear(); });
    Proceed();
    (void)launcher.Run();
    Hear();
    hearing_.Cancel();
    pause_.Cancel();
    EXPECT_TRUE(script_.empty()) << script_.front();
    ExpectGolden("tests/golden/serve/" + name + ".txt", transcript_);
  }

  void Hear() {
    std::string bytes(size_t{1} << 16, '\0');
    const ssize_t n = ::recv(client_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n <= 0) return hearing_.Cancel();
    EXPECT_TRUE(reader_.Feed(ByteView(bytes.data(), static_cast<size_t>(n))).ok());
    Proceed();
  }

  Status OnMessage(std::string_view type, Json message) {
    Hide(message);
    transcript_ += "< " + MessageLine(message);
    heard_.insert(std::string(type));
    return {};
  }

  // What differs from run to run.
  static bool IsVolatile(std::string_view key) {
    return key == "pid" || key == "job_id" || key == "time" || key == "wall" ||
           (key.ends_with("_s") && key != "grace_s");
  }
  static void Hide(Json& value) {
    if (!value.is_structured()) return;
    for (auto& item : value.items()) {
      if (value.is_object() && IsVolatile(item.key()) && !item.value().is_null()) {
        std::string name = item.key();
        std::transform(name.begin(), name.end(), name.begin(), ::toupper);
        item.value() = name;
      } else {
        Hide(item.value());
      }
    }
  }

  // The client goes on once what it waits for has come, and nothing more follows at once: so it is
  // always said at the same place.
  void Proceed() {
    while (!script_.empty() && script_.front().starts_with("< ")) {
      const auto heard = heard_.find(script_.front().substr(2));
      if (heard == heard_.end()) return pause_.Cancel();
      heard_.erase(heard);
      script_.pop_front();
    }
    quiet_turns_ = 0;
    Pause();
  }
  void Pause() {
    pause_ = loop_->After(Duration::zero(), [this] {
      if (++quiet_turns_ < 20) return loop_->Post([this] { Pause(); });
      while (!script_.empty() && script_.front().starts_with("> ")) {
        Say(script_.front().substr(2));
        script_.pop_front();
      }
    });
  }

  // "{…}abc": a line and its blob.
  void Say(const std::string& words) {
    const size_t end = words.rfind('}') + 1;
    const std::string blob = words.substr(end);
    const std::string line = words.substr(0, end) + "\n";
    transcript_ += "> " + line;
    if (!blob.empty()) transcript_ += fmt::format("> ({} bytes)\n", blob.size());
    EXPECT_TRUE(WriteAll(client_.get(), line + blob).ok());
  }

  ServeOptions options_;
  UniqueFd client_;
  Watch hearing_;
  Watch pause_;
  int quiet_turns_ = 0;
  std::deque<std::string> script_;
  std::multiset<std::string> heard_;
  std::string transcript_;
  MessageReader reader_{{.on_message = [this](std::string_view type, const Json& head,
                                              uint64_t) { return OnMessage(type, head); },
                         .on_blob =
                             [this](ByteView piece, uint64_t left) {
                               transcript_ +=
                                   fmt::format("< ({} bytes, {} left)\n", piece.size(), left);
                               return Status();
                             }}};
};

constexpr const char* kHello = R"(
> {"type":"hello","protocol":1,"client":"test"}
< hello
)";
constexpr const char* kBye = R"(
> {"type":"bye"}
)";

TEST_F(ServeTranscriptTest, GangsOneAfterTheOther) {
  Play("gangs", std::string(kHello) + R"(
> {"type":"start","gang":1,"np":2,"env":{"COLOUR":"red"},"data":21}
< ready
< data
< data
> {"type":"send","gang":1,"to":[1],"data":"blob"}
< data
> {"type":"send","gang":1,"to":"all","data":{"report":{"loss":0.5}}}
< report
< report
> {"type":"signal","gang":1,"to":[0],"signo":10}
> {"type":"stop","gang":1,"grace_s":10}
< stopped
> {"type":"start","gang":2,"np":1}
< ready
> {"type":"stop","gang":2}
< stopped
)" + kBye);
}

TEST_F(ServeTranscriptTest, Objects) {
  Play("objects", std::string(kHello) + R"(
> {"type":"put","object":1,"blob":5}first
> {"type":"put","object":2}
> {"type":"start","gang":1,"np":1,"objects":[1],"data":"after the object"}
< ready
< data
< data
> {"type":"send","gang":1,"to":[0],"objects":[2,1],"data":"after both"}
< data
< data
< data
> {"type":"send","gang":1,"to":[0],"objects":[3]}
< refused
> {"type":"drop","object":1}
< refused
> {"type":"put","object":2,"blob":5}again
< refused
> {"type":"stop","gang":1}
< stopped
> {"type":"drop","object":1}
> {"type":"start","gang":2,"objects":[1]}
< refused
)" + kBye);
}

TEST_F(ServeTranscriptTest, WhatIsRefused) {
  Play("refused", std::string(kHello) + R"(
> {"type":"send","gang":1,"to":"all","data":1}
< refused
> {"type":"start","gang":1,"np":3}
< refused
> {"type":"start","gang":2,"np":2}
< ready
> {"type":"start","gang":3}
< refused
> {"type":"send","gang":2,"to":[2],"data":1}
< refused
> {"type":"signal","gang":1,"to":"all","signo":15}
< refused
> {"type":"stop","gang":3}
< refused
> {"type":"hosts","hosts":["b:1"]}
< refused
> {"type":"notify","gang":2,"to":"all","timestamp":1700000000}
< refused
> {"type":"stop","gang":2}
< stopped
> {"type":"stop","gang":2}
> {"type":"start","gang":2}
< refused
)" + kBye);
}

TEST_F(ServeTranscriptTest, AWorkerThatFails) {
  Play("failed_worker", std::string(kHello) + R"(
> {"type":"start","gang":1}
< ready
> {"type":"send","gang":1,"to":[1],"data":{"exit":7}}
< stopped
> {"type":"start","gang":2}
< ready
> {"type":"bye"}
< stopped
)");
}

TEST_F(ServeTranscriptTest, ALineThatIsNoMessage) {
  Play("bad_line", std::string(kHello) + R"(
> {"type":"start","gang":1,"np":1}
< ready
> {"type":"sing","gang":1}
< refused
< stopped
)");
}

TEST_F(ServeTranscriptTest, AnotherProtocol) {
  Play("other_protocol", R"(
> {"type":"hello","protocol":2,"client":"later"}
< refused
)");
}

TEST_F(ServeTranscriptTest, WarmHosts) {
  Play("warm", std::string(kHello) + R"(
> {"type":"warm","preload":["json","?torch"],"env":{"COLOUR":"red"}}
> {"type":"warm","preload":["json"]}
< refused
< warmed
> {"type":"start","gang":1,"np":1,"env":{"COLOUR":"red"}}
< ready
> {"type":"stop","gang":1}
< stopped
> {"type":"warm","preload":["nowhere"]}
< warmed
)" + kBye);
}

TEST_F(ServeTranscriptTest, AHostThatIsNotReadyInTimeForAnObject) {
  transport_.on_agent = [](const std::string&, FakeAgent&) {};
  plan_.spec.start_timeout.Set(std::chrono::milliseconds(500), "test");  // after "start" is said
  Play("late_host", std::string(kHello) + R"(
> {"type":"put","object":1,"blob":5}first
> {"type":"start","gang":1,"objects":[1]}
< refused
)" + kBye);
}

TEST_F(ServeTranscriptTest, AnElasticJobWhoseHostsAreTold) {
  PlayElastic("hosts", std::string(kHello) + R"(
> {"type":"hosts","hosts":["a:many"]}
< refused
> {"type":"hosts","hosts":["a:1"]}
> {"type":"start","gang":1,"data":21}
< ready
< data
> {"type":"notify","gang":1,"to":[0],"timestamp":1700000000}
< refused
> {"type":"hosts","hosts":["b:1"],"final":true}
< ready
< data
> {"type":"hosts","hosts":["a:1"]}
< refused
> {"type":"warm","preload":["json"]}
< refused
> {"type":"stop","gang":1}
< stopped
)" + kBye);
}

}  // namespace
}  // namespace hvdray
