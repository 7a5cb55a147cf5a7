// SPDX-License-Identifier: Apache-2.0
// The rendezvous of a job without sockets: one store, one relay core a host, and links between them
// that delay, thin and stall messages but never reorder them. Time moves by hand.
#ifndef HVDRAY_TESTS_FAKES_FAKE_KV_NETWORK_H_
#define HVDRAY_TESTS_FAKES_FAKE_KV_NETWORK_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_store.h"
#include "rendezvous/relay_core.h"

namespace hvdray {

/// How one direction of a link treats a message. In order, whatever the numbers say.
struct FakeLinkShape {
  Duration delay{0};
  Duration jitter{0};           ///< Up to this much more, drawn for each message.
  double bytes_per_second = 0;  ///< 0: no limit.
};

class FakeKvNetwork final : private KvStore::Owner {
 public:
  /// status 0: the connection was closed without an answer.
  using Done = std::function<void(int status, std::string body)>;

  explicit FakeKvNetwork(std::vector<std::string> hosts, uint64_t seed = 1,
                         RelayCoreOptions options = {})
      : random_(seed), store_(*this) {
    for (std::string& name : hosts) {
      hosts_.push_back(std::make_unique<Host>(std::move(name), options));
    }
  }

  TimePoint now() const { return now_; }
  KvStore& store() { return store_; }
  RelayCore& relay(int host) { return hosts_[static_cast<size_t>(host)]->core; }
  const std::string& host_name(int host) const { return hosts_[static_cast<size_t>(host)]->name; }
  std::mt19937_64& random() { return random_; }

  void Shape(int host, FakeLinkShape shape) { At(host).shape = shape; }
  /// Both directions of that host's link hold their messages back until then.
  void Stall(int host, TimePoint until) { At(host).stalled_until = until; }

  /// Questions that the launcher answers itself when the test says so (elastic jobs).
  void HoldRankAndSize() { is_rank_held_ = true; }
  size_t parked_places() const { return parked_.size(); }

  /// What a launcher does at each round: the store, then the relays, then who waits for a place.
  void Reset(KvAssignment assignment) {
    const Generation generation = assignment.generation;
    store_.Reset(std::move(assignment));
    for (size_t i = 0; i < hosts_.size(); ++i) {
      Host* host = hosts_[i].get();
      Deliver(host, &host->down_busy_until, 16, [this, host, generation] {
        host->core.Reset(generation, now_, &host->actions);
        Act(*host);
      });
    }
    for (const auto& [host, question] : std::exchange(parked_, {})) store_.Ask(host, question);
  }

  void OpenWorker(int host, int worker, int local_rank, Generation generation) {
    At(host).core.OpenWorker(worker, JoinSlot(host_name(host), local_rank), generation);
  }
  /// What was asked before stays on its way upstream, as with a killed process.
  void CloseWorker(int host, int worker) {
    for (const uint64_t request : At(host).core.HeldBy(worker)) done_.erase(request);
    At(host).core.CloseWorker(worker);
  }

  uint64_t Request(int host, int worker, const std::string& method, const std::string& target,
                   std::string body, Done done) {
    const ParsedKvRequest parsed = ParseKvRequest(method, target, true);
    HVDRAY_CHECK(parsed.status == 200);
    const uint64_t id = ++last_request_;
    done_[id] = std::move(done);
    ++request_count_;
    At(host).core.OnRequest(worker, id, parsed.call,
                            std::make_shared<const std::string>(std::move(body)), now_,
                            &At(host).actions);
    Act(At(host));
    return id;
  }

  void After(Duration delay, std::function<void()> what) {
    agenda_.emplace(std::pair(now_ + delay, ++last_event_), std::move(what));
  }
  /// Runs what is due, in order, up to and including `until`, and lets time pass to there.
  void RunUntil(TimePoint until) {
    while (!agenda_.empty() && agenda_.begin()->first.first <= until) {
      auto event = agenda_.extract(agenda_.begin());
      now_ = event.key().first;
      event.mapped()();
    }
    now_ = std::max(now_, until);
  }
  void RunFor(Duration time) { RunUntil(now_ + time); }
  /// Runs until `is_done` or `limit` has passed; the former.
  bool RunUntilDone(const std::function<bool()>& is_done, Duration limit) {
    const TimePoint end = now_ + limit;
    while (!is_done()) {
      if (agenda_.empty() || agenda_.begin()->first.first > end) return false;
      RunUntil(agenda_.begin()->first.first);
    }
    return true;
  }

  uint64_t request_count() const { return request_count_; }
  uint64_t messages_up() const { return messages_up_; }
  uint64_t bytes_down() const { return bytes_down_; }

 private:
  struct Host {
    Host(std::string host_name, RelayCoreOptions options)
        : name(std::move(host_name)), core(options) {}
    std::string name;
    RelayCore core;
    RelayActions actions;
    FakeLinkShape shape;
    TimePoint up_busy_until{}, down_busy_until{}, stalled_until{};
    TimePoint tick_at = TimePoint::max();
  };

  Host& At(int host) { return *hosts_[static_cast<size_t>(host)]; }
  int IndexOf(const Host& host) const {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].get() == &host) return static_cast<int>(i);
    }
    return -1;
  }

  void Deliver(Host* host, TimePoint* busy_until, size_t bytes, std::function<void()> what) {
    const FakeLinkShape& shape = host->shape;
    Duration travel = shape.delay;
    if (shape.jitter.count() > 0) {
      travel +=
          Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(shape.jitter.count())));
    }
    Duration sending{0};
    if (shape.bytes_per_second > 0) {
      sending =
          Duration(static_cast<int64_t>(1e9 * static_cast<double>(bytes) / shape.bytes_per_second));
    }
    const TimePoint arrival = std::max({now_ + travel, *busy_until, host->stalled_until}) + sending;
    *busy_until = arrival;
    agenda_.emplace(std::pair(arrival, ++last_event_), std::move(what));
  }

  void Answer(int index, KvAnswer answer) override {
    Host* host = &At(index);
    const size_t bytes = 32 + answer.key.size() + (answer.value ? answer.value->size() : 0);
    bytes_down_ += answer.value ? answer.value->size() : 0;
    Deliver(host, &host->down_busy_until, bytes, [this, host, answer = std::move(answer)] {
      host->core.OnAnswer(answer, &host->actions);
      Act(*host);
    });
  }

  void Act(Host& host) {
    for (KvQuestion& question : std::exchange(host.actions.questions, {})) {
      const size_t bytes = 64 + (question.value ? question.value->size() : 0);
      ++messages_up_;
      Deliver(&host, &host.up_busy_until, bytes,
              [this, index = IndexOf(host), question = std::move(question)] {
                if (is_rank_held_ && question.op == KvOp::kRankAndSize) {
                  parked_.emplace_back(index, question);
                } else {
                  store_.Ask(index, question);
                }
              });
    }
    for (RelayReply& reply : std::exchange(host.actions.replies, {})) {
      const auto found = done_.find(reply.request);
      if (found == done_.end()) continue;
      Done done = std::move(found->second);
      done_.erase(found);
      std::string body = reply.body ? *reply.body : std::string();
      After(kLoopbackTime,
            [done = std::move(done), status = reply.status, body] { done(status, body); });
    }
    const auto deadline = host.core.NextDeadline();
    if (!deadline || *deadline >= host.tick_at) return;
    host.tick_at = *deadline;
    agenda_.emplace(std::pair(*deadline, ++last_event_), [this, at = &host] {
      at->tick_at = TimePoint::max();
      at->core.OnTick(now_, &at->actions);
      Act(*at);
    });
  }

  static constexpr Duration kLoopbackTime = std::chrono::microseconds(50);

  std::mt19937_64 random_;
  TimePoint now_{std::chrono::seconds(1000)};
  std::vector<std::unique_ptr<Host>> hosts_;
  KvStore store_;
  std::map<std::pair<TimePoint, uint64_t>, std::function<void()>> agenda_;
  std::unordered_map<uint64_t, Done> done_;
  std::vector<std::pair<int, KvQuestion>> parked_;
  bool is_rank_held_ = false;
  uint64_t last_request_ = 0, last_event_ = 0, request_count_ = 0, messages_up_ = 0,
           bytes_down_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_KV_NETWORK_H_
