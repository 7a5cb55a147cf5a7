// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/down_driver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

namespace hvdray {
namespace {

using std::chrono::seconds;

class Sim {
 public:
  Sim(std::vector<int> processes, bool is_confirmed = true,
      std::optional<int64_t> expired_by = std::nullopt,
      std::string last_words = "No nodes remaining.")
      : processes_(std::move(processes)),
        driver_({.cluster = "c",
                 .head = "n0",
                 .is_confirmed = is_confirmed,
                 .expired_by = expired_by,
                 .last_words = std::move(last_words)},
                Nodes()) {}

  std::optional<int> Run() {
    Take(driver_.Begin(now_));
    while (!exit_code_) {
      if (!events_.empty()) {
        const ClusterEvent event = std::move(events_.front());
        events_.pop_front();
        Take(driver_.Handle(event, now_));
        continue;
      }
      const auto next = driver_.NextDeadline();
      if (!next) break;
      now_ = *next;
      Take(driver_.Handle(event::Tick{}, now_));
    }
    return exit_code_;
  }

  std::map<int, Status> no_log_in_;
  std::map<int, int> left_;             // cannot be ended
  std::map<int, std::string> hanging_;  // which verb never ends there
  std::map<int, std::string> heads_;
  std::map<int, std::string> at_work_;
  std::set<int> containers_;
  std::string drained_ = "@drained 0 0\n";
  int drains_ = 0;
  std::map<int, int64_t> leases_;
  bool answer_ = false;
  std::vector<int> stopped_;
  std::string said_;
  std::vector<Status> reported_errors_;
  std::vector<ClusterNote> notes_;
  std::vector<int> processes_;
  std::vector<NodeRow> Rows() const { return driver_.Rows(); }

 private:
  std::vector<DownNode> Nodes() const {
    std::vector<DownNode> nodes;
    for (size_t i = 0; i < processes_.size(); ++i) nodes.push_back({fmt::format("n{}", i), i == 0});
    return nodes;
  }
  void Take(const ClusterEffects& effects) {
    for (const ClusterEffect& effect : effects) {
      std::visit([this](const auto& one) { Apply(one); }, effect);
    }
  }
  void Apply(const cluster_effect::LogIn& effect) {
    const auto fault = no_log_in_.find(effect.node);
    if (fault != no_log_in_.end()) {
      events_.emplace_back(cluster_event::Lost{effect.node, fault->second});
    } else {
      events_.emplace_back(cluster_event::LoggedIn{effect.node});
    }
  }
  void Apply(const cluster_effect::Run& effect) {
    if (hanging_[effect.node] == effect.task.verb) return;
    TaskResult result;
    int& processes = processes_[static_cast<size_t>(effect.node)];
    if (effect.task.verb == "drain") {
      EXPECT_TRUE(stopped_.empty()) << "before any node ends";
      EXPECT_EQ(effect.node, 0);
      ++drains_;
      result.output = drained_;
    } else if (effect.task.verb == "end") {
      stopped_.push_back(effect.node);
      result.output = fmt::format("@stopped {} {}\n", processes, left_[effect.node]);
      processes = left_[effect.node];
      containers_.erase(effect.node);
      leases_.erase(effect.node);
    } else {
      const std::string head = heads_.contains(effect.node) ? heads_[effect.node]
                               : effect.node == 0           ? ""
                                                            : "n0";
      result.output = fmt::format("@processes {}\n@head {}\n@containers {}\n", processes, head,
                                  containers_.contains(effect.node) ? 1 : 0);
      const bool is_first_look = !effect.task.arguments.empty();
      if (is_first_look && at_work_.contains(effect.node)) {
        EXPECT_EQ(effect.task.arguments.front(), "await");
        result.output += "@at_work " + at_work_[effect.node] + "\n";
      }
      if (leases_.contains(effect.node)) {
        result.output += fmt::format("@lease {}\n", leases_[effect.node]);
      }
    }
    events_.emplace_back(cluster_event::Done{effect.node, std::move(result)});
  }
  void Apply(const cluster_effect::Say& effect) { said_ += effect.text + "\n"; }
  void Apply(const cluster_effect::ReportError& effect) { reported_errors_.push_back(effect.why); }
  void Apply(const cluster_effect::Ask& /*effect*/) {
    events_.emplace_back(cluster_event::Answer{answer_});
  }
  void Apply(const cluster_effect::Note& effect) { notes_.push_back(effect.what); }
  void Apply(const cluster_effect::Finish& effect) { exit_code_ = effect.exit_code; }

  DownDriver driver_;
  TimePoint now_{};
  std::deque<ClusterEvent> events_;
  std::optional<int> exit_code_;
};

TEST(DownDriverTest, WorkersEndBeforeTheHead) {
  Sim sim({9, 7, 7});
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.stopped_, std::vector<int>({1, 2, 0}));
  EXPECT_NE(sim.said_.find("n1: ended 7 processes; none is left"), std::string::npos);
  EXPECT_TRUE(sim.said_.ends_with("No nodes remaining.\n"));
}

TEST(DownDriverTest, NothingThatRunsIsNothingToDoOrToAsk) {
  Sim sim({0, 0}, /*is_confirmed=*/false);
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.said_, "No nodes remaining.\n");
}

TEST(DownDriverTest, NoNodesAtAllIsDone) {
  Sim sim({});
  EXPECT_EQ(sim.Run(), 0);
}

TEST(DownDriverTest, AnAnswerOfNoEndsNothing) {
  Sim sim({9, 7}, /*is_confirmed=*/false);
  EXPECT_EQ(sim.Run(), 2);
  EXPECT_TRUE(sim.stopped_.empty());
}

TEST(DownDriverTest, AnUnreachableHostIsNamedAndTheOthersAreDone) {
  Sim sim({9, 7, 7});
  sim.no_log_in_[1] = {ErrorCode::kHostUnreachable, "no route"};
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_EQ(sim.stopped_, std::vector<int>({2, 0}));
  ASSERT_EQ(sim.reported_errors_.size(), 1U);
  EXPECT_NE(sim.reported_errors_[0].message().find("n1"), std::string::npos);
  EXPECT_EQ(sim.said_.find("No nodes remaining"), std::string::npos);
}

TEST(DownDriverTest, WhoEndsTheMachinesNextSumsUp) {
  Sim sim({9}, /*is_confirmed=*/true, std::nullopt, /*last_words=*/"");
  sim.no_log_in_[0] = {ErrorCode::kHostUnreachable, "no route"};
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_EQ(sim.reported_errors_.size(), 1U);
  EXPECT_EQ(sim.said_.find("may still run"), std::string::npos)
      << "its machine is ended all the same";
}

TEST(DownDriverTest, ANodeThatHangsIsGivenUpAndTheOthersAreDone) {
  for (const char* verb : {"survey", "drain", "end"}) {
    Sim sim({9, 7, 7});
    const int hanging = std::string_view(verb) == "drain" ? 0 : 1;
    sim.hanging_[hanging] = verb;
    EXPECT_EQ(sim.Run(), 125) << verb;
    ASSERT_EQ(sim.reported_errors_.size(), 1U) << verb;
    EXPECT_EQ(sim.reported_errors_[0].code(), ErrorCode::kDeadlineExceeded) << verb;
    EXPECT_EQ(sim.stopped_, (hanging == 0 ? std::vector({1, 2}) : std::vector({2, 0}))) << verb;
    EXPECT_EQ(sim.said_.find("No nodes remaining"), std::string::npos) << verb;
  }
}

TEST(DownDriverTest, ANodeThatAnUpWorksOnIsNoneThatHasEnded) {
  Sim sim({0, 7});
  sim.at_work_ = {{0, "ann@a, pid 7"}};
  EXPECT_EQ(sim.Run(), 125);
  ASSERT_EQ(sim.reported_errors_.size(), 1U);
  EXPECT_NE(sim.reported_errors_[0].message().find(
                "n0: an hvdray up is still running on this node: ann@a, pid 7"),
            std::string::npos)
      << sim.reported_errors_[0].message();
  EXPECT_EQ(sim.stopped_, std::vector<int>({1}));
  EXPECT_EQ(sim.said_.find("No nodes remaining"), std::string::npos);
}

TEST(DownDriverTest, ProcessesThatCannotBeEndedAreCounted) {
  Sim sim({9, 7});
  sim.left_[1] = 2;
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_NE(sim.reported_errors_[0].message().find("2 processes"), std::string::npos);
  EXPECT_EQ(sim.stopped_, std::vector<int>({1, 0}));
}

TEST(DownDriverTest, AContainerWithoutRayIsEndedToo) {
  Sim sim({0, 7});
  sim.containers_ = {0};
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.stopped_, std::vector<int>({1, 0}));
  EXPECT_TRUE(sim.containers_.empty());
  EXPECT_NE(sim.said_.find("n0: ended 0 processes and the container"), std::string::npos);
}

TEST(DownDriverTest, ALeaseWithoutRayIsTakenBack) {
  Sim sim({0, 0});
  sim.leases_ = {{1, 500}};
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.stopped_, std::vector<int>({1}));
  EXPECT_TRUE(sim.leases_.empty());
}

TEST(DownDriverTest, ExpiredEndsAClusterWhoseLatestLeaseIsOver) {
  Sim sim({9, 7, 7}, true, 1000);
  sim.leases_ = {{0, 1000}, {1, 900}};  // n2 has none
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.stopped_, std::vector<int>({1, 2, 0}));
}

TEST(DownDriverTest, ExpiredLeavesAClusterThatWasRenewedAnywhereOrHasNoLease) {
  Sim renewed({9, 7}, false, 1000);
  renewed.leases_ = {{0, 1001}, {1, 900}};
  EXPECT_EQ(renewed.Run(), 0);
  EXPECT_TRUE(renewed.stopped_.empty());
  EXPECT_EQ(renewed.Rows()[0].need, "keep");
  EXPECT_EQ(renewed.Rows()[0].state, "running");
  EXPECT_NE(renewed.said_.find("1970-01-01T00:16:41Z"), std::string::npos);
  Sim none({9, 7}, false, 1000);
  EXPECT_EQ(none.Run(), 0);
  EXPECT_TRUE(none.stopped_.empty());
  EXPECT_NE(none.said_.find("no node has a lease"), std::string::npos);
  Sim unknown({9, 7}, true, 1000);
  unknown.leases_ = {{0, 1001}};
  unknown.no_log_in_[1] = {ErrorCode::kHostUnreachable, "no route"};
  EXPECT_EQ(unknown.Run(), 125);
  EXPECT_TRUE(unknown.stopped_.empty());
}

TEST(DownDriverTest, AnotherClustersRayIsLeftAlone) {
  Sim sim({9, 7});
  sim.heads_[1] = "elsewhere";
  EXPECT_EQ(sim.Run(), 125);
  EXPECT_EQ(sim.stopped_, std::vector<int>({0}));
}

TEST(DownDriverTest, StopsTheJobsBeforeAnyNodeEnds) {
  Sim sim({3, 2, 2});
  sim.drained_ = "@drained 2 1\n";
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.drains_, 1);
  EXPECT_EQ(sim.stopped_, (std::vector<int>{1, 2, 0}));
  EXPECT_NE(sim.said_.find("stopped 2 jobs, of which 1"), std::string::npos);
}

TEST(DownDriverTest, EndsRayAlsoWhereItsJobsCannotBeAsked) {
  Sim sim({3, 2});
  sim.drained_ = "@problem no dashboard\n";
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_NE(sim.said_.find("no dashboard"), std::string::npos);
}

TEST(DownDriverTest, JobsGoOnWithTheirHead) {
  Sim sim({0, 2});  // --workers-only, or a head that is down
  EXPECT_EQ(sim.Run(), 0);
  EXPECT_EQ(sim.drains_, 0);
}

TEST(DownDriverTest, RowsAndNotesTellWhatEachNodeWas) {
  Sim sim({9, 0, 7});
  sim.no_log_in_[2] = {ErrorCode::kAuthenticationFailed, "no"};
  EXPECT_EQ(sim.Run(), 125);
  const std::vector<NodeRow> rows = sim.Rows();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].need, "end");
  EXPECT_EQ(rows[0].state, "ended");
  EXPECT_EQ(rows[0].processes, 9);
  EXPECT_TRUE(rows[0].is_head && rows[0].end);
  EXPECT_EQ(rows[1].need, "keep");
  EXPECT_FALSE(rows[1].end);
  EXPECT_EQ(rows[2].need, "");
  EXPECT_EQ(rows[2].why.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_FALSE(rows[2].log_in);
  const auto count = [&sim](auto kind) {
    return std::count_if(sim.notes_.begin(), sim.notes_.end(), [](const ClusterNote& note) {
      return std::holds_alternative<decltype(kind)>(note);
    });
  };
  EXPECT_EQ(count(cluster_note::Planned{}), 1);
  EXPECT_EQ(count(cluster_note::RayStopped{}), 1);
  EXPECT_EQ(count(cluster_note::NodeEnded{}), 1);
  EXPECT_EQ(count(cluster_note::NodeFailed{}), 1);
}

}  // namespace
}  // namespace hvdray
