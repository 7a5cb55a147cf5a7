// SPDX-License-Identifier: Apache-2.0
// The driver of `up` against simulated nodes, which keep what a real node keeps: a record of steps,
// a token, a Ray. A run may be killed after any task; the next one must converge.
#include "cluster/up/up_driver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What stays on a node between runs.
struct SimNode {
  std::string address;
  std::vector<std::string> record;
  std::string token;
  std::string ray;  // Ray's id of its raylet; empty: none runs
  std::string joined;
  int64_t lease = 0;
  bool is_watched = false;
  bool has_lease_ended = false;
  std::string at_work;
  std::string container;  // what it was started with; empty: none runs
  std::string version = "2.60.0";
  std::vector<std::string> done;  // commands, in order
  std::vector<std::string> members;
  int looks_until_ray = 0;  // after its start command: surveys without a raylet
};

struct SimCluster {
  explicit SimCluster(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      nodes.push_back({.address = fmt::format("10.0.0.{}", i + 1)});
    }
  }
  std::vector<SimNode> nodes;
  std::set<std::string> alive;  // on the head's GCS
  int starts = 0;
  bool has_no_dashboard = false;
};

ClusterNodeSetup SetupOf(std::vector<std::string> commands) {
  ClusterNodeSetup setup;
  setup.file_mounts = {{"~/code", "code"}};
  setup.setup_commands = std::move(commands);
  setup.start_commands = {"ray stop", "ray start"};
  return setup;
}

/// One run of the driver over the cluster.
class Sim {
 public:
  explicit Sim(SimCluster& cluster, UpPolicy policy = {},
               std::vector<std::string> commands = {"one", "two"}, std::string files = "files",
               std::string image = "")
      : cluster_(cluster),
        driver_(Policy(std::move(policy)), Plans(cluster, commands, files, image), "new-token") {}

  /// Exit code; nullopt: killed after `tasks` tasks.
  std::optional<int> Run(int tasks = 1 << 20) {
    tasks_left_ = tasks;
    Take(driver_.Begin(now_));
    while (!exit_code_ && tasks_left_ > 0) {
      if (!events_.empty()) {
        const ClusterEvent event = NextEvent();
        Take(driver_.Handle(event, now_));
        CheckStates();
        continue;
      }
      const auto next = driver_.NextDeadline();
      if (held_) {
        EXPECT_FALSE(next.has_value()) << "nothing to do but to wait for the head";
        events_.emplace_back(*std::exchange(held_, std::nullopt));
        continue;
      }
      if (!next) break;  // stuck
      now_ = std::max(now_, *next);
      Take(driver_.Handle(event::Tick{}, now_));
    }
    return exit_code_;
  }

  void FailLogIn(size_t node, Status why, int times = 1000) { no_log_in_[node] = {why, times}; }
  void FailCommand(const std::string& command, int code) { failing_[command] = code; }
  void BreakJoin(size_t node) { not_joining_.insert(node); }
  void ExpectNoWorkersAtHeadStart() { is_head_strict_ = true; }
  /// The head's start says that its GCS listens, and ends when all else is over.
  void HoldHeadStart(int exit_code = 0) { held_exit_code_ = exit_code; }
  /// Events of different nodes come in any order, and some agents are lost.
  void Shuffle(uint64_t seed) { random_.emplace(seed); }
  void AnswerWith(bool yes) { answer_ = yes; }
  bool HasSaid(const std::string& text) const { return said_.find(text) != std::string::npos; }
  const std::string& said() const { return said_; }
  /// Without what a board of the nodes shows, too.
  const std::string& said_beside_board() const { return said_beside_board_; }
  const std::vector<Status>& complaints() const { return reported_errors_; }
  const UpDriver& driver() const { return driver_; }
  /// All notes of one kind, in order.
  template <typename Kind>
  std::vector<Kind> Notes() const {
    std::vector<Kind> found;
    for (const ClusterNote& note : notes_) {
      if (const Kind* one = std::get_if<Kind>(&note)) found.push_back(*one);
    }
    return found;
  }
  int asked() const { return asked_; }
  Duration Elapsed() const { return now_ - TimePoint{}; }

 private:
  static UpPolicy Policy(UpPolicy policy) {
    policy.cluster = "c";
    policy.head = "10.0.0.1";
    policy.command = "hvdray up c.yaml";
    return policy;
  }
  static std::vector<UpNode> Plans(const SimCluster& cluster,
                                   const std::vector<std::string>& commands,
                                   const std::string& files, const std::string& image) {
    std::vector<UpNode> plans;
    ClusterNodeSetup setup = SetupOf(commands);
    if (!image.empty()) setup.container = {.image = image, .name = "box"};
    for (const SimNode& node : cluster.nodes) {
      plans.push_back({node.address, StepsOf(setup, {.files_hash = files,
                                                     .head = plans.empty() ? "" : "10.0.0.1",
                                                     .host_mounts = "mounts"})});
    }
    return plans;
  }

  static int NodeOf(const ClusterEvent& event) {
    int node = -1;
    std::visit(
        [&node](const auto& fact) {
          if constexpr (requires { fact.node; }) node = fact.node;
        },
        event);
    return node;
  }
  ClusterEvent NextEvent() {
    auto next = events_.begin();
    if (random_) {
      const int node = NodeOf(events_[(*random_)() % events_.size()]);
      next = std::find_if(next, events_.end(),
                          [node](const ClusterEvent& event) { return NodeOf(event) == node; });
    }
    ClusterEvent event = std::move(*next);
    events_.erase(next);
    if (auto* done = std::get_if<cluster_event::Done>(&event)) {
      busy_.erase(done->node);
      if (random_ && (*random_)() % 40 == 0) {
        return cluster_event::Lost{done->node, {ErrorCode::kAgentLost, "gone"}};
      }
    }
    return event;
  }
  /// What up_node.h promises of each node.
  void CheckStates() {
    std::map<std::string_view, int> order;
    for (int state = 0; state <= static_cast<int>(UpState::kFailed); ++state) {
      order[Name(static_cast<UpState>(state))] = state;
    }
    const std::vector<NodeRow> rows = driver_.Rows();
    before_.resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto state = static_cast<UpState>(order.at(rows[i].state));
      const UpState was = std::exchange(before_[i], state);
      const bool is_cleared = i != 0 && was == UpState::kStarting && state == UpState::kForHead;
      EXPECT_TRUE(was <= state || is_cleared) << i << ": " << Name(was) << ", " << Name(state);
      EXPECT_TRUE(!IsEnd(was) || was == state) << i << ": " << Name(was) << ", " << Name(state);
      EXPECT_EQ(rows[i].why.ok(), state != UpState::kFailed) << i;
    }
  }
  void Take(ClusterEffects effects) {
    for (ClusterEffect& effect : effects) {
      ASSERT_FALSE(exit_code_.has_value()) << "an effect after Finish";
      std::visit([this](auto& one) { Apply(one); }, effect);
    }
  }
  void Apply(const cluster_effect::LogIn& effect) {
    const auto node = static_cast<size_t>(effect.node);
    auto fault = no_log_in_.find(node);
    if (fault != no_log_in_.end() && fault->second.second-- > 0) {
      events_.emplace_back(cluster_event::Lost{effect.node, fault->second.first});
    } else {
      events_.emplace_back(cluster_event::LoggedIn{effect.node});
    }
  }
  void Apply(const cluster_effect::Run& effect) {
    EXPECT_TRUE(busy_.insert(effect.node).second) << "two tasks at once";
    if (tasks_left_-- <= 0) return;
    cluster_event::Done done{effect.node, {}};
    done.result = Do(static_cast<size_t>(effect.node), effect.task);
    if (held_exit_code_ && effect.node == 0 && effect.task.verb == "start") {
      events_.emplace_back(cluster_event::Listening{0});
      done.result.exit_code = *held_exit_code_;
      held_ = std::move(done);
      return;
    }
    if (random_ && effect.node == 0 && effect.task.verb == "start") {
      events_.emplace_back(cluster_event::Listening{0});
    }
    events_.emplace_back(std::move(done));
  }
  void Apply(const cluster_effect::Say& effect) {
    said_ += effect.text + "\n";
    if (!effect.is_step) said_beside_board_ += effect.text + "\n";
  }
  void Apply(const cluster_effect::ReportError& effect) { reported_errors_.push_back(effect.why); }
  void Apply(const cluster_effect::Ask& /*effect*/) {
    ++asked_;
    events_.emplace_back(cluster_event::Answer{answer_});
  }
  void Apply(const cluster_effect::Note& effect) { notes_.push_back(effect.what); }
  void Apply(const cluster_effect::Finish& effect) { exit_code_ = effect.exit_code; }

  TaskResult Do(size_t index, const NodeTask& task) {
    SimNode& node = cluster_.nodes[index];
    TaskResult result;
    now_ += milliseconds(10);  // so that what takes time can be told from what takes none
    if (task.kind == NodeTask::Kind::kFiles) {
      node.done.emplace_back("files");
      result.copied = SyncStats{.files = 2, .bytes = 30};
      return result;
    }
    if (task.verb == "survey") {
      for (const std::string& hash : node.record) result.output += "@step " + hash + "\n";
      result.output += fmt::format("@processes {}\n", node.ray.empty() ? 0 : 9);
      if (!node.ray.empty() && node.looks_until_ray-- > 0) return result;
      if (!node.ray.empty()) result.output += "@node " + node.ray + "\n";
      if (!node.ray.empty() && index == 0) result.output += "@gcs\n";
      if (!node.ray.empty()) result.output += "@address 10.99." + node.ray + "\n";
      if (!node.joined.empty()) result.output += "@head " + node.joined + "\n";
      for (const std::string& line : node.members) result.output += "@member " + line + "\n";
      if (node.lease != 0) result.output += fmt::format("@lease {}\n", node.lease);
      if (node.is_watched) result.output += "@watched\n";
      if (node.has_lease_ended) result.output += "@lease_ended\n";
      const bool is_claim = !task.arguments.empty() && task.arguments[0] == "claim";
      if (is_claim && !node.at_work.empty()) result.output += "@at_work " + node.at_work + "\n";
      if (!node.container.empty()) {
        result.output += "@containers 1\n@container " + node.container + "\n";
      }
    } else if (task.verb == "lease") {
      node.lease = std::stoll(task.arguments.at(0));
      node.is_watched = node.lease != 0;
      node.has_lease_ended = false;
      node.done.push_back("lease " + task.arguments.at(0) + " " + task.arguments.at(1));
    } else if (task.verb == "container") {
      StartContainer(index, node, task);
    } else if (task.verb == "nodes") {
      if (cluster_.has_no_dashboard) {
        result.output = "@no_dashboard\n";
        return result;
      }
      result.output = "@dashboard 127.0.0.1 8265\n";
      for (const std::string& id : cluster_.alive) result.output += "@alive " + id + " x\n";
    } else if (task.verb == "members") {
      EXPECT_EQ(index, 0U);
      node.members = task.arguments;
    } else if (task.verb == "mark") {
      Record(node, task);
    } else if (task.verb == "token") {
      const std::string given = task.input.substr(0, task.input.find('\n'));
      if (task.arguments[0] == "set" || node.token.empty()) node.token = given;
      result.output = "@token " + node.token + "\n";
    } else if (task.verb == "versions") {
      result.output = "@ray " + node.version + "\n@python 3.11.7\n";
      if (node.version.empty()) result.output = "@ray\n";
    } else if (task.verb == "stop") {
      cluster_.alive.erase(node.ray);
      node.ray.clear();
      if (index == 0) cluster_.alive.clear();
      result.output = "@stopped 9 0\n";
    } else if (task.verb == "step" || task.verb == "start") {
      RunCommand(index, node, task, result);
    } else {
      ADD_FAILURE() << task.verb;
    }
    return result;
  }
  void RunCommand(size_t index, SimNode& node, const NodeTask& task, TaskResult& result) {
    EXPECT_TRUE(task.is_shown);
    node.done.push_back(task.arguments[2]);
    node.record.resize(std::min(node.record.size(), std::stoul(task.arguments[0])));
    if (const auto fault = failing_.find(task.arguments[2]); fault != failing_.end()) {
      result.exit_code = fault->second;
      result.last_lines = {"it went wrong"};
      return;
    }
    if (task.verb == "start") {
      EXPECT_TRUE(node.ray.empty()) << "started beside the former one";
      EXPECT_EQ(node.token, cluster_.nodes[0].token);
      EXPECT_FALSE(node.token.empty());
      EXPECT_TRUE(index == 0 || !cluster_.nodes[0].ray.empty()) << "before the head";
      if (index == 0 && is_head_strict_) {
        for (const SimNode& other : cluster_.nodes) EXPECT_TRUE(other.ray.empty()) << other.address;
      }
      node.ray = fmt::format("ray{}", ++cluster_.starts);
      node.joined = index == 0 ? "" : "10.0.0.1";
      if (!not_joining_.contains(index)) cluster_.alive.insert(node.ray);
    }
    node.record.push_back(task.arguments[1]);
  }
  void StartContainer(size_t index, SimNode& node, const NodeTask& task) {
    EXPECT_TRUE(task.is_shown);
    const std::string& config = task.arguments.at(3);
    if (node.container != config || task.arguments.at(2) == "force") {
      cluster_.alive.erase(node.ray);
      if (index == 0 && !node.ray.empty()) cluster_.alive.clear();
      node.ray.clear();
      node.container = config;
      node.done.push_back("container " + task.arguments.at(7));
    }
    Record(node, task);
  }
  static void Record(SimNode& node, const NodeTask& task) {
    node.record.resize(std::min(node.record.size(), std::stoul(task.arguments[0])));
    node.record.push_back(task.arguments[1]);
  }

  SimCluster& cluster_;
  UpDriver driver_;
  TimePoint now_{};
  std::deque<ClusterEvent> events_;
  std::map<size_t, std::pair<Status, int>> no_log_in_;
  std::map<std::string, int> failing_;
  std::set<size_t> not_joining_;
  std::set<int> busy_;
  std::optional<std::mt19937_64> random_;
  std::vector<UpState> before_;
  bool answer_ = true;
  bool is_head_strict_ = false;
  std::optional<int> held_exit_code_;
  std::optional<cluster_event::Done> held_;
  int tasks_left_ = 0;
  int asked_ = 0;
  std::string said_, said_beside_board_;
  std::vector<Status> reported_errors_;
  std::vector<ClusterNote> notes_;
  std::optional<int> exit_code_;
};

void ExpectAllUp(const SimCluster& cluster) {
  for (const SimNode& node : cluster.nodes) {
    EXPECT_FALSE(node.ray.empty()) << node.address;
    EXPECT_TRUE(cluster.alive.contains(node.ray)) << node.address;
    EXPECT_EQ(node.token, cluster.nodes[0].token);
  }
}

const UpPolicy kYes{.is_confirmed = true};

/// "setup 1/2 exit 7"
std::string Told(const StepOutcome& outcome) {
  return fmt::format("{} {}/{} exit {}", Name(outcome.kind), outcome.number, outcome.count,
                     outcome.exit_code);
}

std::vector<std::string> ToldOf(const std::vector<StepOutcome>& outcomes) {
  std::vector<std::string> told;
  for (const StepOutcome& outcome : outcomes) told.push_back(Told(outcome));
  return told;
}

TEST(UpDriverTest, ANewClusterIsSetUpAndAllNodesJoin) {
  SimCluster cluster(4);
  Sim sim(cluster, kYes);
  EXPECT_EQ(sim.Run(), 0);
  ExpectAllUp(cluster);
  for (const SimNode& node : cluster.nodes) {
    EXPECT_EQ(node.done, std::vector<std::string>({"files", "one", "two", "ray start"}));
  }
  EXPECT_EQ(cluster.nodes[0].token, "new-token");
  EXPECT_TRUE(sim.HasSaid("10.0.0.1: create (head)"));
  EXPECT_EQ(sim.asked(), 0);
}

TEST(UpDriverTest, ANodeThatAnotherUpWorksOnIsLeftToIt) {
  SimCluster cluster(2);
  for (SimNode& node : cluster.nodes) node.at_work = "ann@a, pid 7";
  Sim sim(cluster, kYes);
  EXPECT_EQ(sim.Run(), 125);
  ASSERT_EQ(sim.complaints().size(), 2U);
  EXPECT_NE(sim.complaints()[0].message().find("ann@a, pid 7"), std::string::npos);
  for (const SimNode& node : cluster.nodes) EXPECT_TRUE(node.done.empty());
  Sim look(cluster, {.is_dry_run = true});
  EXPECT_EQ(look.Run(), 0) << "looking is not working";
}

TEST(UpDriverTest, WhereALeaseHasEndedItIsTakenBackFirst) {
  SimCluster cluster(2);
  cluster.nodes[1].has_lease_ended = true;
  Sim sim(cluster, kYes);
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(cluster.nodes[1].done.front(), "lease 0 stay");
}

TEST(UpDriverTest, BesideABoardOnlyPlanAndCopiesNeedLines) {
  SimCluster cluster(1);
  Sim sim(cluster, kYes);
  ASSERT_EQ(sim.Run(), 0);
  EXPECT_TRUE(sim.HasSaid("10.0.0.1: setup 1/2: one\n"));
  EXPECT_TRUE(sim.HasSaid("10.0.0.1: Ray is up\n"));
  EXPECT_EQ(sim.said_beside_board(),
            "10.0.0.1: create (head); 3 steps from file mounts: code to ~/code; start Ray\n"
            "10.0.0.1: copied 2 files, 30 bytes\n");
  EXPECT_EQ(sim.driver().Rows()[0].phase, NodePhase::kDone);
}

TEST(UpDriverTest, ASecondRunDoesNothingAndAsksNothing) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  Sim sim(cluster);
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.asked(), 0);
  for (const SimNode& node : cluster.nodes) EXPECT_TRUE(node.done.empty());
  EXPECT_EQ(cluster.starts, 3);
}

TEST(UpDriverTest, TheHeadKeepsWhichNodeRunsOnWhichMachine) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  const auto expected = [&cluster] {
    std::vector<std::string> lines;
    for (const SimNode& node : cluster.nodes) {
      lines.push_back(fmt::format("{0} {1} 10.99.{1}", node.address, node.ray));
    }
    return lines;
  };
  EXPECT_EQ(cluster.nodes[0].members, expected());
  cluster.alive.erase(cluster.nodes[2].ray);
  cluster.nodes[2].ray.clear();
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  EXPECT_EQ(cluster.nodes[0].members, expected());
  // Of a cluster that an older build has started.
  cluster.nodes[0].members.clear();
  ASSERT_EQ(Sim(cluster).Run(), 0);
  EXPECT_EQ(cluster.nodes[0].members, expected());
  cluster.nodes[0].members.clear();
  ASSERT_EQ(Sim(cluster, {.is_dry_run = true}).Run(), 0);
  EXPECT_TRUE(cluster.nodes[0].members.empty());
}

TEST(UpDriverTest, AWorkerWhoseRayDiedIsTheOnlyOneStarted) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  cluster.alive.erase(cluster.nodes[2].ray);
  cluster.nodes[2].ray.clear();
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_TRUE(cluster.nodes[0].done.empty());
  EXPECT_TRUE(cluster.nodes[1].done.empty());
  EXPECT_EQ(cluster.nodes[2].done, std::vector<std::string>({"ray start"}));
}

TEST(UpDriverTest, AWorkerThatTheHeadCallsDeadIsStartedAgain) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  cluster.alive.erase(cluster.nodes[1].ray);  // its raylet runs on
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_EQ(cluster.starts, 4);
}

TEST(UpDriverTest, ANewHeadIsJoinedByAllWorkersAnew) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  cluster.nodes[0].ray.clear();
  cluster.alive.clear();
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_EQ(cluster.starts, 6);
}

TEST(UpDriverTest, WorkersEndTheirRayBeforeTheHeadIsRestarted) {
  SimCluster cluster(4);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  Sim sim(cluster, {.is_confirmed = true, .is_restart_only = true});
  sim.ExpectNoWorkersAtHeadStart();
  EXPECT_EQ(sim.Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_EQ(cluster.starts, 8);
  Sim changed(cluster, kYes, {"other"});
  changed.ExpectNoWorkersAtHeadStart();
  EXPECT_EQ(changed.Run(), 0);
  ExpectAllUp(cluster);
}

TEST(UpDriverTest, WorkersStartAsSoonAsTheHeadsGcsListens) {
  SimCluster cluster(3);
  Sim up(cluster, kYes);
  up.HoldHeadStart();
  EXPECT_EQ(up.Run(), 0);
  ExpectAllUp(cluster);
  const auto started = up.Notes<cluster_note::RayStarted>();
  ASSERT_EQ(started.size(), 3U);
  EXPECT_EQ(started.back().node, 0);
}

TEST(UpDriverTest, AHeadThatFailsAfterItsGcsListenedTakesTheWorkersAlong) {
  SimCluster cluster(3);
  Sim up(cluster, kYes);
  up.HoldHeadStart(1);
  EXPECT_EQ(up.Run(), 125);
  for (const NodeRow& row : up.driver().Rows()) EXPECT_EQ(row.state, "failed") << row.address;
  EXPECT_EQ(up.complaints().size(), 1U);
}

TEST(UpDriverTest, AWorkerThatFailsDoesNotKeepTheHeadWaiting) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  cluster.nodes[2].version = "";
  Sim sim(cluster, {.is_confirmed = true, .is_restart_only = true});
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_EQ(sim.complaints().size(), 1U);
  EXPECT_TRUE(cluster.alive.contains(cluster.nodes[1].ray));
}

TEST(UpDriverTest, AChangedCommandRunsExactlyWhatFollows) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  EXPECT_EQ(Sim(cluster, kYes, {"one", "changed"}).Run(), 0);
  ExpectAllUp(cluster);
  for (const SimNode& node : cluster.nodes) {
    EXPECT_EQ(node.done, std::vector<std::string>({"changed", "ray start"}));
  }
}

TEST(UpDriverTest, AnAnswerOfNoChangesNothing) {
  SimCluster cluster(2);
  Sim sim(cluster);
  sim.AnswerWith(false);
  EXPECT_EQ(sim.Run(), 2);
  EXPECT_EQ(sim.asked(), 1);
  EXPECT_FALSE(sim.driver().is_working());
  for (const SimNode& node : cluster.nodes) EXPECT_TRUE(node.done.empty());
}

TEST(UpDriverTest, ADryRunTellsWhatWouldBeDone) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  cluster.nodes[1].ray.clear();
  Sim sim(cluster, {.is_dry_run = true});
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_TRUE(sim.HasSaid("10.0.0.1: keep (head)\n"));
  EXPECT_TRUE(sim.HasSaid("10.0.0.2: create; start Ray"));
  EXPECT_TRUE(cluster.nodes[1].done.empty());
}

TEST(UpDriverTest, RestartOnlyRunsNoSetUpAndNoRestartStartsNoRayAnew) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  EXPECT_EQ(Sim(cluster, {.is_confirmed = true, .is_restart_only = true}, {"x"}).Run(), 0);
  for (SimNode& node : cluster.nodes) {
    EXPECT_EQ(node.done, std::vector<std::string>({"ray start"}));
    node.done.clear();
  }
  EXPECT_EQ(Sim(cluster, {.is_confirmed = true, .is_no_restart = true}, {"one", "y"}).Run(), 0);
  for (SimNode& node : cluster.nodes) EXPECT_EQ(node.done.back(), "y");
  ExpectAllUp(cluster);
  EXPECT_EQ(cluster.starts, 4);
}

TEST(UpDriverTest, ForcedSetUpRunsEveryStep) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  EXPECT_EQ(Sim(cluster, {.is_confirmed = true, .is_setup_forced = true}).Run(), 0);
  for (const SimNode& node : cluster.nodes) EXPECT_EQ(node.done.size(), 4U);
}

TEST(UpDriverTest, ARunKilledAfterAnyTaskIsFinishedByTheNext) {
  int tasks = 0;
  for (;; ++tasks) {
    SimCluster cluster(3);
    const bool was_whole = Sim(cluster, kYes).Run(tasks).has_value();
    EXPECT_EQ(Sim(cluster, kYes).Run(), 0) << tasks;
    ExpectAllUp(cluster);
    for (const SimNode& node : cluster.nodes) {
      // Every command ran, none of the set-up twice: a simulated task is done or not done.
      EXPECT_LE(std::count(node.done.begin(), node.done.end(), "one"), 1) << tasks;
      EXPECT_EQ(std::count(node.done.begin(), node.done.end(), "two"), 1) << tasks;
    }
    if (was_whole) break;
  }
  EXPECT_GT(tasks, 20);
}

TEST(UpDriverTest, AHostThatBootsIsTriedAgainAndTheReasonTold) {
  SimCluster cluster(2);
  Sim sim(cluster, kYes);
  sim.FailLogIn(1, {ErrorCode::kHostRefused, "connect 10.0.0.2:22: Connection refused"}, 3);
  EXPECT_EQ(sim.Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_TRUE(sim.HasSaid("10.0.0.2: waiting for SSH (refused), 60 s left"));
  EXPECT_GE(sim.Elapsed(), seconds(6));
}

TEST(UpDriverTest, AHostThatNeverAnswersIsNamedAndTheOthersAreSetUp) {
  SimCluster cluster(3);
  Sim sim(cluster, kYes);
  sim.FailLogIn(1, {ErrorCode::kConnectTimeout, "timed out"});
  EXPECT_EQ(sim.Run(), 125);
  ASSERT_EQ(sim.complaints().size(), 1U);
  EXPECT_EQ(sim.complaints()[0].code(), ErrorCode::kConnectTimeout);
  EXPECT_NE(sim.complaints()[0].message().find("10.0.0.2"), std::string::npos);
  EXPECT_LE(sim.Elapsed(), seconds(61));
  EXPECT_FALSE(cluster.nodes[2].ray.empty());
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
}

TEST(UpDriverTest, AWrongKeyIsNotTriedAgain) {
  for (const ErrorCode code : {ErrorCode::kAuthenticationFailed, ErrorCode::kHostKeyRejected}) {
    SimCluster cluster(2);
    Sim sim(cluster, kYes);
    sim.FailLogIn(1, {code, "no"});
    EXPECT_EQ(sim.Run(), 125);
    EXPECT_LT(sim.Elapsed(), seconds(1));
  }
}

TEST(UpDriverTest, AFailingCommandIsToldWithItsStepAndItsLastLines) {
  SimCluster cluster(3);
  Sim sim(cluster, kYes);
  sim.FailCommand("two", 7);
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_TRUE(sim.HasSaid("10.0.0.2:   | it went wrong"));
  ASSERT_EQ(sim.complaints().size(), 3U);
  EXPECT_EQ(sim.complaints()[0].code(), ErrorCode::kNodeSetupFailed);
  EXPECT_NE(sim.complaints()[0].message().find("setup 2/2: two: exit code 7"), std::string::npos);
  for (SimNode& node : cluster.nodes) EXPECT_EQ(node.record.size(), 2U);
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
}

TEST(UpDriverTest, WithoutTheHeadNoWorkerIsChanged) {
  SimCluster cluster(2);
  Sim sim(cluster, kYes);
  sim.FailLogIn(0, {ErrorCode::kAuthenticationFailed, "no"});
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_TRUE(cluster.nodes[1].done.empty());
}

TEST(UpDriverTest, AnotherVersionOfRayIsRefusedWithBothNamed) {
  SimCluster cluster(3);
  cluster.nodes[1].version = "2.40.0";
  Sim sim(cluster, kYes);
  EXPECT_EQ(sim.Run(), 125);
  ASSERT_EQ(sim.complaints().size(), 1U);
  EXPECT_NE(sim.complaints()[0].message().find("10.0.0.2: has Ray 2.40.0"), std::string::npos);
  EXPECT_NE(sim.complaints()[0].message().find("the head has Ray 2.60.0"), std::string::npos);
  EXPECT_TRUE(cluster.nodes[1].ray.empty());
  EXPECT_FALSE(cluster.nodes[2].ray.empty());
}

TEST(UpDriverTest, ANodeWithoutRayIsToldHowToGetIt) {
  SimCluster cluster(2);
  cluster.nodes[0].version = "";
  Sim sim(cluster, kYes);
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_NE(sim.complaints()[0].message().find("no Ray"), std::string::npos);
}

TEST(UpDriverTest, ACommandMayLeaveRayStartingBehindIt) {
  SimCluster cluster(2);
  for (SimNode& node : cluster.nodes) node.looks_until_ray = 5;
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
  SimCluster never(2);
  never.nodes[1].looks_until_ray = 1'000'000;
  Sim sim(never, kYes);
  EXPECT_EQ(sim.Run(), 125);
  ASSERT_EQ(sim.complaints().size(), 1U);
  EXPECT_GE(sim.Elapsed(), UpPolicy().join_limit);
}

TEST(UpDriverTest, WithoutADashboardARayletThatRunsHasJoined) {
  SimCluster cluster(3);
  cluster.has_no_dashboard = true;
  EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_EQ(Sim(cluster).Run(), 0);
  EXPECT_EQ(cluster.starts, 3) << "and is kept";
}

TEST(UpDriverTest, AWorkerThatNeverJoinsIsGivenUp) {
  SimCluster cluster(3);
  Sim sim(cluster, {.is_confirmed = true, .join_limit = seconds(10)});
  sim.BreakJoin(2);
  EXPECT_EQ(sim.Run(), 125);
  ASSERT_EQ(sim.complaints().size(), 1U);
  EXPECT_NE(sim.complaints()[0].message().find("10.0.0.3: the head does not list it as ALIVE"),
            std::string::npos);
}

TEST(UpDriverTest, AHostOfAnotherClusterOfThisNameIsLeftAlone) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  cluster.nodes[1].joined = "10.9.9.9";
  const std::string ray = cluster.nodes[1].ray;
  Sim sim(cluster, {.is_confirmed = true, .is_restart_only = true});
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_EQ(cluster.nodes[1].ray, ray);
  EXPECT_NE(sim.complaints()[0].message().find("10.9.9.9"), std::string::npos);
}

TEST(UpDriverTest, TheContainerStandsBetweenInitializationAndSetUp) {
  SimCluster cluster(2);
  EXPECT_EQ(Sim(cluster, kYes, {"one"}, "files", "image:1").Run(), 0);
  ExpectAllUp(cluster);
  for (const SimNode& node : cluster.nodes) {
    EXPECT_EQ(node.done,
              std::vector<std::string>({"files", "container image:1", "one", "ray start"}));
  }
  Sim again(cluster, kYes, {"one"}, "files", "image:1");
  EXPECT_EQ(again.Run(), 0);
  EXPECT_EQ(cluster.starts, 2);
}

TEST(UpDriverTest, ANodeWhoseContainerIsGoneIsSetUpFromThereWhateverWasAskedFor) {
  for (const UpPolicy& policy : {kYes, UpPolicy{.is_confirmed = true, .is_restart_only = true},
                                 UpPolicy{.is_confirmed = true, .is_no_restart = true}}) {
    SimCluster cluster(3);
    ASSERT_EQ(Sim(cluster, kYes, {"one"}, "files", "image:1").Run(), 0);
    for (SimNode& node : cluster.nodes) node.done.clear();
    cluster.nodes[2].container.clear();
    cluster.alive.erase(cluster.nodes[2].ray);
    cluster.nodes[2].ray.clear();
    EXPECT_EQ(Sim(cluster, policy, {"one"}, "files", "image:1").Run(), 0);
    ExpectAllUp(cluster);
    EXPECT_EQ(cluster.nodes[2].done,
              std::vector<std::string>({"container image:1", "one", "ray start"}));
    EXPECT_EQ(cluster.nodes[1].done.size(), policy.is_restart_only ? 1U : 0U);
  }
}

TEST(UpDriverTest, AnotherImageRestartsRayEvenWithNoRestart) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes, {"one"}, "files", "image:1").Run(), 0);
  Sim sim(cluster, {.is_confirmed = true, .is_no_restart = true}, {"one"}, "files", "image:2");
  EXPECT_EQ(sim.Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_EQ(cluster.starts, 4);
  EXPECT_EQ(cluster.nodes[1].done.back(), "ray start");
}

TEST(UpDriverTest, ChangedFilesKeepTheContainerAndForcedSetUpReplacesIt) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes, {"one"}, "files", "image:1").Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  const UpPolicy no_restart{.is_confirmed = true, .is_no_restart = true};
  EXPECT_EQ(Sim(cluster, no_restart, {"one"}, "others", "image:1").Run(), 0);
  EXPECT_EQ(cluster.starts, 2);
  EXPECT_EQ(cluster.nodes[0].done, std::vector<std::string>({"files", "one"}));
  const UpPolicy forced{.is_confirmed = true, .is_setup_forced = true};
  EXPECT_EQ(Sim(cluster, forced, {"one"}, "others", "image:1").Run(), 0);
  ExpectAllUp(cluster);
  EXPECT_EQ(
      std::count(cluster.nodes[1].done.begin(), cluster.nodes[1].done.end(), "container image:1"),
      1);
}

TEST(UpDriverTest, ARunWithContainersKilledAfterAnyTaskIsFinishedByTheNext) {
  for (int tasks = 0;; ++tasks) {
    SimCluster cluster(2);
    const bool was_whole = Sim(cluster, kYes, {"one"}, "files", "image:1").Run(tasks).has_value();
    EXPECT_EQ(Sim(cluster, kYes, {"one"}, "files", "image:1").Run(), 0) << tasks;
    ExpectAllUp(cluster);
    if (was_whole) break;
  }
}

UpPolicy Leased(std::optional<int64_t> lease, int64_t wall_time) {
  UpPolicy policy = kYes;
  policy.lease = lease;
  policy.wall_time = wall_time;
  return policy;
}

TEST(UpDriverTest, ALeaseIsTheFirstThingOnEveryNode) {
  SimCluster cluster(2);
  Sim sim(cluster, Leased(5000, 1000));
  EXPECT_EQ(sim.Run(), 0);
  ExpectAllUp(cluster);
  for (const SimNode& node : cluster.nodes) EXPECT_EQ(node.done.at(0), "lease 5000 stay");
  EXPECT_EQ(sim.driver().lease(), 5000);
  EXPECT_TRUE(sim.HasSaid("cluster c: lease until 1970-01-01T01:23:20Z\n"));
}

TEST(UpDriverTest, ALeaseIsRenewedWithoutTouchingAnythingElse) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, Leased(5000, 1000)).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  EXPECT_EQ(Sim(cluster, Leased(9000, 2000)).Run(), 0);
  for (SimNode& node : cluster.nodes) {
    EXPECT_EQ(node.done, std::vector<std::string>({"lease 9000 stay"}));
    node.done.clear();
  }
  EXPECT_EQ(Sim(cluster, Leased(0, 3000)).Run(), 0);
  for (SimNode& node : cluster.nodes) {
    EXPECT_EQ(node.lease, 0);
    node.done.clear();
  }
  Sim without(cluster, Leased(std::nullopt, 3000));
  EXPECT_EQ(without.Run(), 0);
  EXPECT_EQ(without.driver().lease(), 0);
  for (const SimNode& node : cluster.nodes) EXPECT_TRUE(node.done.empty());
  EXPECT_EQ(cluster.starts, 2);
}

TEST(UpDriverTest, WithoutTheOptionALeaseStaysAndIsGivenToNodesThatLackIt) {
  SimCluster cluster(3);
  ASSERT_EQ(Sim(cluster, Leased(5000, 1000)).Run(), 0);
  for (SimNode& node : cluster.nodes) node.done.clear();
  cluster.nodes[1].lease = 0;
  cluster.nodes[1].is_watched = false;
  cluster.nodes[2].is_watched = false;
  UpPolicy policy = Leased(std::nullopt, 2000);
  policy.is_powered_off = true;
  Sim sim(cluster, policy);
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_TRUE(cluster.nodes[0].done.empty());
  EXPECT_EQ(cluster.nodes[1].done, std::vector<std::string>({"lease 5000 poweroff"}));
  EXPECT_EQ(cluster.nodes[2].done, std::vector<std::string>({"lease 5000 poweroff"}));
  EXPECT_TRUE(sim.HasSaid("lease until 1970-01-01T01:23:20Z, as before"));
}

TEST(UpDriverTest, ALeaseThatHasEndedIsTakenBackAndTold) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, Leased(5000, 1000)).Run(), 0);
  for (SimNode& node : cluster.nodes) node.is_watched = false;  // a reboot
  Sim sim(cluster, Leased(std::nullopt, 5000));
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.driver().lease(), 0);
  for (SimNode& node : cluster.nodes) EXPECT_EQ(node.lease, 0);
  EXPECT_TRUE(sim.HasSaid("its lease ended at 1970-01-01T01:23:20Z"));
}

TEST(UpDriverTest, ADryRunChangesNoLease) {
  SimCluster cluster(2);
  UpPolicy policy = Leased(5000, 1000);
  policy.is_dry_run = true;
  EXPECT_EQ(Sim(cluster, policy).Run(), 0);
  for (const SimNode& node : cluster.nodes) EXPECT_EQ(node.lease, 0);
}

TEST(UpDriverTest, EveryRowOfTheTableHasItsTimes) {
  SimCluster cluster(2);
  Sim sim(cluster, kYes);
  sim.FailLogIn(1, {ErrorCode::kHostRefused, "no"}, 1);
  EXPECT_EQ(sim.Run(), 0);
  const std::vector<NodeRow> rows = sim.driver().Rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0].is_head && !rows[1].is_head);
  EXPECT_GE(rows[1].log_in, seconds(1));
  for (const NodeRow& row : rows) {
    EXPECT_EQ(row.state, Name(UpState::kUp));
    EXPECT_EQ(row.need, "create");
    EXPECT_TRUE(row.why.ok());
    EXPECT_GT(row.set_up, Duration::zero());
    EXPECT_GT(row.join, Duration::zero());
    EXPECT_EQ(row.copied, (SyncStats{.files = 2, .bytes = 30}));
    EXPECT_EQ(row.versions, (RayVersions{"2.60.0", "3.11.7"}));
    EXPECT_EQ(ToldOf(row.steps),
              std::vector<std::string>({"file mounts 1/1 exit 0", "setup 1/2 exit 0",
                                        "setup 2/2 exit 0", "start 1/1 exit 0"}));
    for (const StepOutcome& step : row.steps) EXPECT_GT(step.took, Duration::zero());
  }
}

TEST(UpDriverTest, ANodeThatIsKeptHasNoTimesOfASetUp) {
  SimCluster cluster(2);
  ASSERT_EQ(Sim(cluster, kYes).Run(), 0);
  Sim sim(cluster);
  EXPECT_EQ(sim.Run(), 0);
  for (const NodeRow& row : sim.driver().Rows()) {
    EXPECT_EQ(row.need, "keep");
    EXPECT_EQ(row.processes, 9);
    EXPECT_TRUE(row.log_in && !row.set_up && !row.join);
    EXPECT_TRUE(row.steps.empty());
  }
  for (const auto& up : sim.Notes<cluster_note::NodeUp>()) EXPECT_FALSE(up.is_started);
  EXPECT_EQ(sim.Notes<cluster_note::NodeUp>().size(), 2U);
}

TEST(UpDriverTest, TheNotesTellWhatEachNodeWentThrough) {
  SimCluster cluster(2);
  Sim sim(cluster, kYes);
  sim.FailLogIn(1, {ErrorCode::kHostRefused, "no"}, 1);
  ASSERT_EQ(sim.Run(), 0);
  const auto waiting = sim.Notes<cluster_note::Waiting>();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].node, 1);
  EXPECT_EQ(waiting[0].why.code(), ErrorCode::kHostRefused);
  EXPECT_GT(waiting[0].left, seconds(59));
  const auto plans = sim.Notes<cluster_note::Planned>();
  ASSERT_EQ(plans.size(), 1U);
  ASSERT_EQ(plans[0].nodes.size(), 2U);
  EXPECT_EQ(plans[0].nodes[1].need, "create");
  EXPECT_EQ(plans[0].nodes[1].steps, 3);
  EXPECT_TRUE(plans[0].nodes[1].is_ray_started);
  EXPECT_EQ(sim.Notes<cluster_note::StepStarted>().size(), 8U);
  EXPECT_EQ(sim.Notes<cluster_note::StepDone>().size(), 8U);
  EXPECT_EQ(sim.Notes<cluster_note::RayStarted>().size(), 2U);
  EXPECT_EQ(sim.Notes<cluster_note::NodeUp>().size(), 2U);
  EXPECT_TRUE(sim.Notes<cluster_note::RayStopped>().empty());

  Sim again(cluster, {.is_confirmed = true, .is_restart_only = true});
  ASSERT_EQ(again.Run(), 0);
  const auto stopped = again.Notes<cluster_note::RayStopped>();
  ASSERT_EQ(stopped.size(), 2U);
  EXPECT_EQ(stopped[0].processes, 9);
  EXPECT_EQ(again.Notes<cluster_note::Planned>().at(0).nodes[0].need, "change");
}

TEST(UpDriverTest, AFailedStepIsInTheRowAndTheNotesWithItsExitCode) {
  SimCluster cluster(2);
  Sim sim(cluster, kYes);
  sim.FailCommand("two", 7);
  ASSERT_EQ(sim.Run(), 125);
  for (const NodeRow& row : sim.driver().Rows()) {
    EXPECT_EQ(row.why.code(), ErrorCode::kNodeSetupFailed);
    ASSERT_EQ(row.steps.size(), 3U);
    EXPECT_EQ(Told(row.steps.back()), "setup 2/2 exit 7");
    EXPECT_EQ(row.steps.back().why.code(), ErrorCode::kNodeSetupFailed);
    EXPECT_TRUE(row.set_up);
  }
  EXPECT_EQ(sim.Notes<cluster_note::NodeFailed>().size(), 2U);
  EXPECT_TRUE(sim.Notes<cluster_note::NodeUp>().empty());
}

TEST(UpDriverTest, AnAgentThatIsLostEndsTheStepThatRan) {
  UpDriver driver({.cluster = "c", .head = "a", .is_confirmed = true},
                  {{"a", StepsOf(SetupOf({"one"}), {.files_hash = "files"})}}, "token");
  driver.Begin(TimePoint{});
  driver.Handle(cluster_event::LoggedIn{0}, TimePoint{seconds(1)});
  driver.Handle(cluster_event::Done{0, {.output = "@processes 0\n"}}, TimePoint{seconds(2)});
  driver.Handle(cluster_event::Lost{0, {ErrorCode::kAgentLost, "gone"}}, TimePoint{seconds(5)});
  const NodeRow row = driver.Rows().at(0);
  ASSERT_EQ(row.steps.size(), 1U);
  EXPECT_EQ(row.steps[0].why.code(), ErrorCode::kAgentLost);
  EXPECT_EQ(row.steps[0].took, seconds(3));
  EXPECT_EQ(row.why.code(), ErrorCode::kAgentLost);
}

TEST(UpDriverPropertyTest, EachNodeGoesForwardDoesOneThingAtATimeAndEnds) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    SimCluster cluster(1 + random() % 4);
    for (int run = 0; run < 4; ++run) {
      UpPolicy policy = kYes;
      policy.is_restart_only = random() % 4 == 0;
      policy.is_no_restart = !policy.is_restart_only && random() % 4 == 0;
      policy.is_setup_forced = !policy.is_restart_only && random() % 4 == 0;
      if (random() % 4 == 0) policy.lease = 5000;
      const std::string first = random() % 2 == 0 ? "one" : "other";
      Sim sim(cluster, policy, {first, "two"}, "files", random() % 4 == 0 ? "image" : "");
      sim.Shuffle(seed * 4 + static_cast<uint64_t>(run));
      if (random() % 4 == 0) sim.FailCommand(random() % 2 == 0 ? "two" : "ray start", 7);
      if (random() % 4 == 0) sim.FailLogIn(random() % 4, {ErrorCode::kHostRefused, "no"}, 3);
      if (random() % 8 == 0) sim.BreakJoin(1 + random() % 3);
      const std::optional<int> code = sim.Run();
      ASSERT_TRUE(code.has_value()) << "it waits for nothing";
      bool are_all_up = true;
      for (const NodeRow& row : sim.driver().Rows()) {
        are_all_up = are_all_up && row.phase == NodePhase::kDone;
        EXPECT_TRUE(row.phase == NodePhase::kDone || row.phase == NodePhase::kFailed) << row.state;
      }
      EXPECT_EQ(*code, are_all_up ? 0 : 125);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_EQ(Sim(cluster, kYes).Run(), 0);
    ExpectAllUp(cluster);
  }
}

}  // namespace
}  // namespace hvdray
