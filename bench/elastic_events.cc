// SPDX-License-Identifier: Apache-2.0
// Measures the cost of one ElasticDriver event with many slots: a start, a loss, the round after
// it, a warm join. Prints one JSON object: for each kind of event the count and the mean, 99th
// percentile and maximum in microseconds. Usage: elastic_events [HOSTS [SLOTS_PER_HOST]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "launcher/driver/elastic_mode.h"

namespace {

using namespace hvdray;

class Bench {
 public:
  Bench(int hosts, int slots)
      : hosts_(hosts), slots_(slots), driver_(MakeElasticDriver(Policy(hosts * slots), 1, {})) {}

  void Run() {
    Discover(hosts_);
    Settle("host_ready");
    std::vector<WorkerId> members = Published();
    for (const WorkerId worker : members)
      Feed("started", event::ProcessStarted{worker, worker + 1});
    for (const WorkerId worker : members) Feed("registered", event::AddressesRegistered{worker});
    // A loss takes the whole host; the others ask for their next rank.
    const std::vector<WorkerId> lost = driver_->roster().LivingOn(hosts_ - 1);
    Feed("lost", event::ProcessExited{lost.front(), {.exit_code = 1}});
    for (size_t i = 1; i < lost.size(); ++i) {
      Feed("stopped", event::ProcessExited{lost[i], {.signal = 15}});
    }
    Meet(members);
    // A new host joins while the others train.
    Discover(hosts_ + 1);
    Settle("host_ready");
    members = Published();
    const auto* start = Last<effect::StartWorkers>();
    const std::vector<NewWorker> newcomers = start->workers;
    for (const NewWorker& newcomer : newcomers) {
      Feed("arrived", event::WorkerArrived{newcomer.worker});
    }
    Meet(members);
    Print();
  }

 private:
  static ElasticPolicy Policy(int workers) {
    ElasticPolicy policy;
    policy.np = workers;
    policy.min_np = workers / 2;
    return policy;
  }

  void Discover(int hosts) {
    event::HostsDiscovered found;
    for (int i = 0; i < hosts; ++i) found.hosts.push_back({fmt::format("node{}", i), slots_});
    Feed("discovered", std::move(found));
  }

  // Reports as ready every host that the driver wants to connect.
  void Settle(const char* kind) {
    std::vector<int> connected;
    for (; settled_ < effects_.size(); ++settled_) {
      const auto* connect = std::get_if<effect::ConnectHost>(&effects_[settled_]);
      if (connect != nullptr) connected.push_back(connect->host);
    }
    for (const int host : connected) Feed(kind, event::HostReady{host, {.offered_port = 1}});
  }

  void Meet(const std::vector<WorkerId>& members) {
    for (const WorkerId worker : members) Feed("rank_asked", event::RankAsked{worker});
  }

  std::vector<WorkerId> Published() const { return Last<effect::PublishGeneration>()->workers; }

  template <typename E>
  const E* Last() const {
    for (auto it = effects_.rbegin(); it != effects_.rend(); ++it) {
      if (const E* one = std::get_if<E>(&*it)) return one;
    }
    std::fprintf(stderr, "elastic_events: the driver did not return the expected effect\n");
    std::exit(1);
  }

  void Feed(const std::string& kind, const ElasticEvent& event) {
    const auto begun = std::chrono::steady_clock::now();
    std::vector<ElasticEffect> effects = driver_->Handle(event, TimePoint{});
    const auto next = driver_->NextDeadline();
    const auto ended = std::chrono::steady_clock::now();
    if (next && *next < TimePoint{}) std::exit(2);
    costs_[kind].push_back(std::chrono::duration<double, std::micro>(ended - begun).count());
    for (ElasticEffect& effect : effects) effects_.push_back(std::move(effect));
  }

  void Print() {
    fmt::print("{{\"slots\": {}, \"hosts\": {}, \"generation\": {}, \"size\": {}", hosts_ * slots_,
               hosts_, driver_->generation(), driver_->Snapshot().size);
    for (auto& [kind, costs] : costs_) {
      std::sort(costs.begin(), costs.end());
      double sum = 0;
      for (const double cost : costs) sum += cost;
      const auto count = static_cast<double>(costs.size());
      fmt::print(
          ", \"{}\": {{\"count\": {}, \"mean_us\": {:.2f}, \"p99_us\": {:.2f}, \"max_us\": "
          "{:.1f}}}",
          kind, costs.size(), sum / count, costs[static_cast<size_t>(0.99 * (count - 1))],
          costs.back());
    }
    fmt::print("}}\n");
  }

  const int hosts_;
  const int slots_;
  std::unique_ptr<ElasticDriver> driver_;
  std::vector<ElasticEffect> effects_;
  size_t settled_ = 0;
  std::map<std::string, std::vector<double>> costs_;
};

}  // namespace

int main(int argc, char** argv) {
  const int hosts = argc > 1 ? std::atoi(argv[1]) : 1250;
  const int slots = argc > 2 ? std::atoi(argv[2]) : 8;
  if (hosts < 2 || slots < 1 || hosts > kMaxRanks / slots) {
    std::fprintf(stderr, "usage: elastic_events [HOSTS [SLOTS_PER_HOST]]\n");
    return 2;
  }
  Bench(hosts, slots).Run();
  return 0;
}
