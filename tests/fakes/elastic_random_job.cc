// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/elastic_random_job.h"

#include <fmt/format.h>

#include <csignal>

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  Duration Within(Duration most) {
    return Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(most.count() + 1)));
  }

 private:
  std::mt19937_64 random_;
};

ElasticPolicy RandomPolicy(Dice& dice) {
  ElasticPolicy policy;
  policy.np = 1 + dice.Below(6);
  policy.min_np = 1 + dice.Below(policy.np);
  if (dice.OneIn(2)) policy.max_np = policy.np + dice.Below(6);
  if (dice.OneIn(3)) policy.cooldown = CooldownRange{seconds(1), seconds(1 + dice.Below(20))};
  if (dice.OneIn(6)) policy.reset_limit = static_cast<uint32_t>(dice.Below(4));
  if (dice.OneIn(4)) policy.mode = ElasticMode::kGang;
  policy.max_restarts = static_cast<uint32_t>(dice.Below(4));
  if (dice.OneIn(3)) policy.join = JoinMode::kTogether;
  if (dice.OneIn(3)) policy.success = SuccessRule::kAny;
  policy.breaks_connections = !dice.OneIn(3);
  policy.join_retries = dice.Below(3);
  policy.elastic_timeout = seconds(10 + dice.Below(60));
  policy.start_timeout = seconds(2 + dice.Below(5));
  if (dice.OneIn(2)) policy.straggler_timeout = seconds(20 + dice.Below(60));
  if (dice.OneIn(10)) policy.timeout = seconds(1 + dice.Below(60));
  policy.grace = milliseconds(dice.Below(4) * 1000);
  policy.settle = milliseconds(dice.Below(3) * 500);
  policy.repairs_barriers = !dice.OneIn(4);
  return policy;
}

ElasticWorld RandomWorld(Dice& dice) {
  const Duration delays[] = {Duration::zero(), milliseconds(1), milliseconds(100), seconds(2)};
  return {.is_alive = true,
          .connect = dice.Within(seconds(1)),
          .link_delay = delays[dice.Below(4)],
          .import_time = dice.Within(seconds(5)),
          .init_time = dice.Within(seconds(1)),
          .step_time = dice.Within(milliseconds(500)) + milliseconds(1),
          .steps = 1 + dice.Below(100),
          .notices_lost_of_10 = dice.OneIn(2) ? dice.Below(8) : 0,
          .notices_doubled_of_10 = dice.OneIn(2) ? dice.Below(8) : 0,
          .never_arrives_of_100 = dice.OneIn(3) ? dice.Below(30) : 0,
          .dies_early_of_100 = dice.OneIn(3) ? dice.Below(50) : 0,
          .ignores_sigterm_of_10 = dice.OneIn(3) ? dice.Below(5) : 0,
          .dies_meeting_of_100 = dice.OneIn(3) ? dice.Below(20) : 0};
}

std::vector<HostSlots> RandomHosts(Dice& dice, int least) {
  std::vector<HostSlots> hosts;
  int slots = 0;
  for (int i = 0; i < 6; ++i) {
    const bool is_wanted = slots < least || dice.OneIn(2);
    if (!is_wanted) continue;
    hosts.push_back({fmt::format("h{}", dice.OneIn(4) ? dice.Below(6) : i), 1 + dice.Below(3)});
    slots += hosts.back().slots;
  }
  return hosts;
}

void AddTrouble(Dice& dice, ElasticSim& sim, Duration span) {
  const auto host = [&dice] { return fmt::format("h{}", dice.Below(6)); };
  for (int i = dice.Below(7); i > 0; --i) {
    const Duration when = dice.Within(span);
    const std::string name = host();
    const int slot = dice.Below(3);
    switch (dice.Below(8)) {
      case 0:
      case 1:
        sim.At(when, [&sim, hosts = RandomHosts(dice, dice.OneIn(6) ? 0 : sim.policy().min_np)] {
          sim.Discover(hosts);
        });
        break;
      case 2: {
        wire::ExitStatus status{.exit_code = dice.Below(3)};
        if (dice.OneIn(2)) status = {.signal = SIGKILL};
        sim.At(when, [&sim, name, slot, status] { sim.Exit(name, slot, status); });
        break;
      }
      case 3:
        sim.At(when, [&sim, name] { sim.CutOff(name); });
        if (dice.OneIn(2)) {
          sim.At(when + dice.Within(seconds(20)), [&sim, name] { sim.machine(name).is_up = true; });
        }
        break;
      case 4:
        sim.At(when, [&sim, name, in = dice.Within(seconds(30))] { sim.Leave(name, in); });
        break;
      case 5:
        if (dice.OneIn(3)) sim.At(when, [&sim, name, slot] { sim.Hang(name, slot); });
        break;
      case 6:
        sim.At(when, [&sim, name, slot] { sim.Park(name, slot); });
        break;
      case 7:
        sim.At(when, [&sim] {
          sim.Feed(event::DiscoveryFailed{{ErrorCode::kNoCapacity, "the script exited with 3"}});
        });
        break;
    }
  }
}

void AddOutside(Dice& dice, ElasticSim& sim, Duration span) {
  for (int i = 0; i < 6; ++i) {
    FakeMachine& machine = sim.machine(fmt::format("h{}", i));
    machine.is_stuck_in_stop = dice.OneIn(25);
    machine.is_refusing = dice.OneIn(20);
    machine.loss_noticed_after = dice.OneIn(2) ? Duration::zero() : dice.Within(seconds(5));
  }
  // Lies about who was never there, and facts told twice.
  if (dice.OneIn(4)) {
    sim.At(dice.Within(span), [&sim] {
      sim.Feed(event::ProcessExited{999, {.exit_code = 66}});
      sim.Feed(event::RankAsked{998});
      sim.Feed(event::WorkerArrived{997});
      sim.Feed(event::AddressesRegistered{996});
      sim.Feed(event::HostReady{95, {}});
      sim.Feed(event::HostLost{94, {}});
      sim.Feed(event::HostCopying{91});
      sim.Feed(event::HostLeaving{93, seconds(1)});
      sim.Feed(event::GenerationStopped{7, 92, 1, 1});
    });
  }
  if (dice.OneIn(10)) {
    sim.At(dice.Within(span), [&sim] { sim.Feed(event::UserSignal{SIGINT}); });
  }
  if (dice.OneIn(30)) sim.At(dice.Within(span), [&sim] { sim.Feed(event::ReaderGone{}); });
  if (dice.OneIn(8)) {
    const Duration from = dice.Within(span);
    sim.At(from, [&sim] { sim.Feed(event::OutputBlocked{true}); });
    sim.At(from + dice.Within(seconds(40)), [&sim] { sim.Feed(event::OutputBlocked{false}); });
  }
  // A job that waits for a hung worker for good is ended by its user, patiently.
  sim.At(seconds(3000), [&sim] { sim.Feed(event::UserSignal{SIGTERM}); });
}

}  // namespace

std::unique_ptr<ElasticSim> RandomJob(uint64_t seed) {
  Dice dice(seed);
  ElasticPolicy policy = RandomPolicy(dice);
  if (seed % 3 == 0) {  // on agents that had other jobs
    policy.last_generation = static_cast<Generation>(seed % 1000);
    policy.first_worker = static_cast<WorkerId>(seed % 77);
  }
  const ElasticWorld world = RandomWorld(dice);
  auto sim = std::make_unique<ElasticSim>(policy, world, seed);
  const Duration span = seconds(5) + 2 * world.step_time * world.steps;
  AddOutside(dice, *sim, span);
  const std::vector<HostSlots> hosts = RandomHosts(dice, dice.OneIn(8) ? 0 : policy.np);
  const bool is_final = dice.OneIn(5);
  sim->At(dice.Within(seconds(1)),
          [&sim = *sim, hosts, is_final] { sim.Discover(hosts, is_final); });
  AddTrouble(dice, *sim, span);
  return sim;
}

}  // namespace hvdray
