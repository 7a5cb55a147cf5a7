// SPDX-License-Identifier: Apache-2.0
// A transport whose agents are played by the test: it holds the other end of each stream.
#ifndef HVDRAY_TESTS_FAKES_FAKE_TRANSPORT_H_
#define HVDRAY_TESTS_FAKES_FAKE_TRANSPORT_H_

#include <fcntl.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "cluster/transport/transport.h"
#include "wire/link.h"

namespace hvdray {

/// The agent of one host as the test plays it.
class FakeAgent final : private wire::Link::Owner {
 public:
  FakeAgent(Loop& loop, UniqueFd socket) {
    UniqueFd write_fd(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
    link_ = wire::MakeLink(loop, wire::LinkRole::kAgent,
                           MakeFdStream(loop, std::move(socket), std::move(write_fd)));
    link_->Start(*this);
  }

  void SayHello(wire::HostFacts facts = {}, uint16_t max_version = wire::kMaxVersion) {
    wire::Hello hello;
    hello.max_version = max_version;
    hello.build = "fake";
    hello.facts = std::move(facts);
    link_->Send({0, std::move(hello)});
  }
  void Send(Generation generation, wire::Body body) { link_->Send({generation, std::move(body)}); }
  void Vanish() { link_.reset(); }

  template <typename T>
  std::vector<T> All() const {
    std::vector<T> found;
    for (const wire::Message& message : received) {
      if (const auto* body = std::get_if<T>(&message.body)) found.push_back(*body);
    }
    return found;
  }

  std::function<void(const wire::Message&)> on_message;
  std::vector<wire::Message> received;
  std::vector<Status> closed;

 private:
  void OnMessage(wire::Message&& message) override {
    received.push_back(std::move(message));
    if (on_message) on_message(received.back());
  }
  void OnClosed(Status why) override { closed.push_back(std::move(why)); }

  std::unique_ptr<wire::Link> link_;
};

class FakeTransport : public Transport {
 public:
  explicit FakeTransport(Loop& loop) : loop_(loop) {}

  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override {
    if (const auto found = failures.find(host); found != failures.end()) {
      loop_.Post([done = std::move(done), status = found->second] { done(status); });
      return;
    }
    auto sockets = MakeSocketPair();
    auto agent = std::make_shared<UniqueFd>(std::move(sockets->second));
    auto ours = std::make_shared<UniqueFd>(std::move(sockets->first));
    loop_.Post([this, host, done = std::move(done), agent, ours] {
      UniqueFd write_fd(::fcntl(ours->get(), F_DUPFD_CLOEXEC, 3));
      AgentStart start;
      start.stream = MakeFdStream(loop_, std::move(*ours), std::move(write_fd));
      start.process = std::make_unique<Process>(exits[host], carriers);
      agents[host] = std::make_unique<FakeAgent>(loop_, std::move(*agent));
      done(std::move(start));
      if (on_agent) on_agent(host, *agents[host]);
    });
  }

  /// The carrier of a host's agent ends.
  void Exit(const std::string& host, Status how) {
    if (exits[host]) std::exchange(exits[host], nullptr)(std::move(how));
  }

  std::map<std::string, Status> failures;
  std::map<std::string, std::unique_ptr<FakeAgent>> agents;
  std::map<std::string, std::function<void(Status)>> exits;
  std::function<void(const std::string& host, FakeAgent& agent)> on_agent;
  int carriers = 0;  // that somebody holds

 private:
  class Process : public AgentProcess {
   public:
    Process(std::function<void(Status)>& slot, int& count) : slot_(slot), count_(count) {
      ++count_;
    }
    ~Process() override { --count_; }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    void OnExit(std::function<void(Status)> callback) override { slot_ = std::move(callback); }
    int pid() const override { return 0; }

   private:
    std::function<void(Status)>& slot_;
    int& count_;
  };

  Loop& loop_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_TRANSPORT_H_
