// SPDX-License-Identifier: Apache-2.0
// An agent's session over a real socketpair; the test is the launcher's link at the other end.
#ifndef HVDRAY_TESTS_UNIT_AGENT_AGENT_SESSION_HARNESS_H_
#define HVDRAY_TESTS_UNIT_AGENT_AGENT_SESSION_HARNESS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_session.h"
#include "tests/unit/agent/probe.h"
#include "tests/unit/agent/process_scan.h"

namespace hvdray {

class AgentSessionHarness : public ::testing::Test, private wire::Link::Owner {
 protected:
  void SetUp() override {
    auto loop = Loop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(loop).value();
    auto sockets = MakeSocketPair();
    ASSERT_TRUE(sockets.ok());
    AgentSessionOptions options;
    options.build = "test";
    options.facts = GatherHostFacts();
    options.has_probe_listener = has_probe_listener_;
    session_ = std::make_unique<AgentSession>(*loop_, Stream(std::move(sockets->first)),
                                              std::move(options), [this](int code) {
                                                exit_code_ = code;
                                                session_.reset();
                                              });
    link_ = wire::MakeLink(*loop_, wire::LinkRole::kLauncher, Stream(std::move(sockets->second)));
    link_->Start(*this);
    session_->Start();
    link_->Send({0, wire::Hello{.build = "launcher"}});
  }

  void TearDown() override {
    session_.reset();
    EXPECT_TRUE(WaitFor([&] { return FindMarked(mark_).empty(); }));
  }

  std::unique_ptr<ByteStream> Stream(UniqueFd fd) {
    UniqueFd copy(::dup(fd.get()));
    return MakeFdStream(*loop_, std::move(fd), std::move(copy));
  }

  void OnClosed(Status why) override { closed_ = std::move(why); }
  void OnMessage(wire::Message&& message) override {
    if (auto* output = std::get_if<wire::Output>(&message.body)) {
      text_ += output->bytes;
      if (!output->bytes.empty()) {
        link_->Send(
            {message.generation, wire::Credit{output->rank, wire::StreamId::kStdout,
                                              static_cast<uint32_t>(output->bytes.size())}});
      }
    }
    received_.push_back(std::move(message));
  }

  template <typename T>
  std::vector<T> Received() const {
    std::vector<T> found;
    for (const wire::Message& message : received_) {
      if (const T* body = std::get_if<T>(&message.body)) found.push_back(*body);
    }
    return found;
  }
  template <typename T>
  bool WaitForSome(size_t count = 1) {
    return WaitFor(*loop_, [&] { return Received<T>().size() >= count; });
  }

  void Welcome(uint32_t grace_ms = 5000, bool takes_deflated = false) {
    wire::Welcome welcome;
    welcome.is_elastic = is_elastic_;
    welcome.job_id = "job";
    welcome.host = "here";
    welcome.grace_ms = grace_ms;
    welcome.takes_deflated = takes_deflated;
    link_->Send({0, welcome});
  }
  wire::StartGeneration MakeStart(int workers, std::vector<std::string> words) {
    wire::StartGeneration start;
    start.size = workers;
    start.local_size = workers;
    start.host_name = "here";
    for (int i = 0; i < workers; ++i) start.workers.push_back({i, i, 0, 1});
    start.command = ProbeCommand(std::move(words));
    start.environment = {"PATH=/usr/bin:/bin", mark_};
    return start;
  }
  void StartProbes(Generation generation, int workers, std::vector<std::string> words) {
    link_->Send({generation, wire::KvReset{}});
    link_->Send({generation, MakeStart(workers, std::move(words))});
  }
  bool WaitUntilReady(size_t workers) {
    return WaitFor(*loop_, [&] { return text_.size() >= workers * 6; });
  }
  bool WaitUntilDone() {
    return WaitFor(*loop_, [&] { return exit_code_.has_value(); });
  }

  bool has_probe_listener_ = false;
  bool is_elastic_ = false;
  std::string mark_ = MakeMark();
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<AgentSession> session_;
  std::unique_ptr<wire::Link> link_;
  std::vector<wire::Message> received_;
  std::string text_;
  std::optional<Status> closed_;
  std::optional<int> exit_code_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_AGENT_AGENT_SESSION_HARNESS_H_
