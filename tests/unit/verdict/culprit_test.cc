// SPDX-License-Identifier: Apache-2.0
// Which worker is blamed, for observed ends of gangs (Horovod 0.28.1, torch 1.13).
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/driver/verdict.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

const LastError kShutDown = {"HorovodInternalError: Horovod has been shut down",
                             "Horovod has been shut down"};
const LastError kReset = {"RuntimeError: Connection reset by peer", "Connection reset by peer"};
const LastError kOwn = {"ValueError: the batch is empty", ""};

TimePoint At(int ms) { return TimePoint{} + milliseconds(ms); }

/// One worker after the other, by rank.
struct Gang {
  std::vector<WorkerRecord> workers;

  Gang& Ends(int at, wire::ExitStatus status, const LastError& error = {}, int erred = -1) {
    WorkerRecord worker{.rank = static_cast<int>(workers.size()), .host = "a", .pid = 7};
    worker.ended = At(at);
    worker.status = status;
    worker.error = error;
    if (erred >= 0) worker.erred = At(erred);
    workers.push_back(worker);
    return *this;
  }
  Gang& IsStopped(int at, const LastError& error = {}, int erred = -1) {
    Ends(at, {.signal = SIGTERM}, error, erred);
    workers.back().was_stopping = true;
    return *this;
  }
};

TEST(CulpritTest, IsNobodyWhereNobodyFailed) {
  EXPECT_EQ(FindCulprit({}).index, -1);
  EXPECT_EQ(FindCulprit(Gang().Ends(5, {}).IsStopped(9).workers).index, -1);
}

TEST(CulpritTest, IsTheOnlyOneThatFailed) {
  const Culprit culprit = FindCulprit(Gang().IsStopped(900).Ends(500, {.exit_code = 7}).workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_TRUE(culprit.is_certain);
  EXPECT_TRUE(culprit.evidence.empty());
}

TEST(CulpritTest, IsTheOneWithAnErrorOfItsOwnThoughVictimsEndBefore) {
  const Culprit culprit = FindCulprit(Gang()
                                          .Ends(1200, {.exit_code = 1}, kShutDown, 20)
                                          .Ends(1498, {.exit_code = 1}, kOwn, 0)
                                          .Ends(1700, {.exit_code = 1}, kShutDown, 31)
                                          .workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_TRUE(culprit.is_certain);
}

TEST(CulpritTest, IsTheOneThatExitsWithoutAWordWhereAllOthersBlameAPeer) {
  const Culprit culprit = FindCulprit(Gang()
                                          .Ends(1200, {.exit_code = 1}, kShutDown, 20)
                                          .Ends(1307, {.exit_code = 17})
                                          .Ends(1534, {.exit_code = 1}, kShutDown, 21)
                                          .workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_TRUE(culprit.is_certain);
}

TEST(CulpritTest, IsTheCrashThatTheOthersHeardOf) {
  const Culprit culprit = FindCulprit(Gang()
                                          .Ends(700, {.exit_code = 1}, kReset, 510)
                                          .Ends(500, {.signal = SIGSEGV})
                                          .Ends(800, {.signal = SIGABRT}, kReset, 512)
                                          .workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_TRUE(culprit.is_certain);
}

TEST(CulpritTest, IsOnlyProbableWhereTheVictimsErrorsCameFirst) {
  // hvd.shutdown(), then an error: the others' errors start at the shutdown.
  const Culprit culprit = FindCulprit(Gang()
                                          .Ends(900, {.exit_code = 1}, kShutDown, 100)
                                          .Ends(950, {.exit_code = 1}, kOwn, 400)
                                          .workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_FALSE(culprit.is_certain);
  ASSERT_EQ(culprit.evidence.size(), 2u);
  ExpectSays(culprit.evidence[0], {"others", kShutDown.peer_words});
  ExpectSays(culprit.evidence[1], {"rank 0", "300 ms"});
}

TEST(CulpritTest, IsTheEarlierErrorOfTwoOfTheirOwn) {
  const Culprit culprit = FindCulprit(
      Gang().Ends(900, {.exit_code = 1}, kOwn, 300).Ends(500, {.exit_code = 5}).workers);
  EXPECT_EQ(culprit.index, 0);
  EXPECT_FALSE(culprit.is_certain);
  ASSERT_EQ(culprit.evidence.size(), 2u);
  ExpectSays(culprit.evidence[0], {"error", "first"});
  ExpectSays(culprit.evidence[1], {"rank 1", "before"});
}

TEST(CulpritTest, IsUncertainBetweenTwoThatFailAtOnce) {
  const Culprit culprit =
      FindCulprit(Gang().Ends(502, {.exit_code = 3}).Ends(500, {.exit_code = 5}).workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_FALSE(culprit.is_certain);
  EXPECT_TRUE(FindCulprit(Gang().Ends(560, {.exit_code = 3}).Ends(500, {.exit_code = 5}).workers)
                  .is_certain);
}

TEST(CulpritTest, MayBeOneThatWeStoppedInItsOwnShutdown) {
  const Culprit culprit = FindCulprit(
      Gang().Ends(1200, {.exit_code = 1}, kShutDown, 20).IsStopped(4300, kOwn, 5).workers);
  EXPECT_EQ(culprit.index, 1);
  EXPECT_FALSE(culprit.is_certain);
  WorkerRecord blamed = Gang().IsStopped(4300, kOwn, 5).workers[0];
  EXPECT_EQ(ExitCode(blamed), 1);
  ExpectSays(DescribeFailure(blamed), {kOwn.text, "stopped"});
}

TEST(CulpritTest, IsOneThatOthersWaitedForUnlessAnotherHasAnErrorOfItsOwn) {
  const LastError stalled{"stalled: never submitted w, for which others waited 60 s", ""};
  Gang gang = Gang().Ends(1200, {.exit_code = 1}, kShutDown, 20).IsStopped(4300, stalled, 500);
  EXPECT_EQ(FindCulprit(gang.workers).index, 1);
  EXPECT_EQ(DescribeFailure(gang.workers[1]), "never submitted w, for which others waited 60 s");
  gang = Gang().Ends(1200, {.exit_code = 1}, kOwn, 20).IsStopped(4300, stalled, 500);
  EXPECT_EQ(FindCulprit(gang.workers).index, 0);
}

TEST(CulpritTest, WhoEndsWithoutAWordMayHaveWaitedForOneThatIsNamed) {
  const LastError stalled{"stalled: never submitted w, for which others waited 60 s", ""};
  Gang gang = Gang().Ends(1200, {.exit_code = 1}).IsStopped(4300, stalled, 500);
  Culprit culprit = FindCulprit(gang.workers);
  EXPECT_EQ(culprit.index, 0);
  EXPECT_FALSE(culprit.is_certain);
  ASSERT_FALSE(culprit.evidence.empty());
  ExpectSays(culprit.evidence.back(), {"rank 1 never submitted w"});
  gang = Gang().Ends(1200, {.exit_code = 1}, kShutDown, 1100).Ends(1000, {}, stalled, 500);
  culprit = FindCulprit(gang.workers);
  EXPECT_EQ(culprit.index, 0);
  ExpectSays(culprit.evidence.back(), {"rank 1 never submitted w"});
}

TEST(CulpritTest, IsNotOneWhoseErrorCameOfOurSignal) {
  const Culprit culprit = FindCulprit(
      Gang().Ends(500, {.exit_code = 7}).IsStopped(900, {"KeyboardInterrupt", ""}, 850).workers);
  EXPECT_EQ(culprit.index, 0);
  EXPECT_TRUE(culprit.is_certain);
}

TEST(CulpritTest, IsTheFirstWhereAllBlameAPeerAndThatIsSaid) {
  const Culprit culprit = FindCulprit(Gang()
                                          .Ends(700, {.exit_code = 1}, kShutDown, 510)
                                          .Ends(400, {})
                                          .Ends(650, {.exit_code = 1}, kShutDown, 520)
                                          .workers);
  EXPECT_EQ(culprit.index, 0);
  EXPECT_FALSE(culprit.is_own);
  EXPECT_FALSE(culprit.is_certain);
  ASSERT_EQ(culprit.evidence.size(), 2u);
  ExpectSays(culprit.evidence[1], {"rank 1", "succeeded"});
}

TEST(CulpritTest, IsTheOneThatWasKilledWhateverItHadSaid) {
  const Gang gang = Gang()
                        .Ends(500, {.signal = SIGKILL}, kShutDown, 100)
                        .Ends(510, {.signal = SIGABRT}, kShutDown, 505);
  const Culprit culprit = FindCulprit(gang.workers);
  EXPECT_EQ(culprit.index, 0);
  EXPECT_TRUE(culprit.is_own);
  EXPECT_TRUE(culprit.is_certain);
  EXPECT_TRUE(IsPlainCrash(gang.workers[0]));
}

// Its connections close before its exit is known: the peers' errors come first.
TEST(CulpritTest, IsTheOneThatWasKilledThoughOthersSaySomethingJustBefore) {
  const Culprit culprit = FindCulprit(
      Gang().Ends(900, {.exit_code = 1}, kOwn, 495).Ends(500, {.signal = SIGKILL}).workers);
  EXPECT_EQ(culprit.index, 1);
}

TEST(CulpritTest, AnErrorOfLongAgoIsAnotherMatter) {
  const Culprit culprit = FindCulprit(
      Gang().Ends(100'000, {.exit_code = 1}, kOwn, 1'000).Ends(90'000, {.exit_code = 9}).workers);
  EXPECT_EQ(culprit.index, 1);
}

}  // namespace
}  // namespace hvdray
