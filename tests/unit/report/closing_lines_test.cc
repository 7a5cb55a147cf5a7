// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>

#include "launcher/report/run_ending.h"
#include "tests/fakes/golden.h"
#include "tests/unit/report/sample_elastic.h"

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

std::string Text(const Verdict& verdict, const Lines& last = {}, ClosingStyle style = {}) {
  std::string text;
  for (const std::string& line : ClosingLines(verdict, last, style)) text += line + "\n";
  return text;
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void Blame(Verdict& verdict, wire::ExitStatus status, ErrorCode code) {
  verdict.workers[2].status = status;
  verdict.first_failure = verdict.workers[2];
  verdict.exit_code = ExitCodeOf(status);
  verdict.error = Status(code, "rank 2 on host node2 " + Describe(status));
}

TEST(ClosingLinesTest, PlainSuccessSaysNothing) { EXPECT_EQ(Text(GoodVerdict()), ""); }

TEST(ClosingLinesTest, VerboseSuccessIsOneLine) {
  EXPECT_EQ(Text(GoodVerdict(), {}, {.is_verbose = true}),
            "hvdray: 4 workers succeeded after 12.4 s\n");
}

TEST(ClosingLinesTest, OrphansAreMentionedUnlessQuiet) {
  Verdict verdict = GoodVerdict();
  verdict.swept = 2;
  EXPECT_EQ(Text(verdict), "hvdray: killed 2 processes that workers left behind\n");
  EXPECT_EQ(Text(verdict, {}, {.is_quiet = true}), "");
}

TEST(ClosingLinesTest, RestartsAreCountedOnlyWhereNoneWasTold) {
  Verdict verdict = BadVerdict();
  verdict.restarts = 2;
  EXPECT_FALSE(Has(Text(verdict), "restart"));
  EXPECT_TRUE(Has(Text(verdict, {}, {.is_quiet = true}), "hvdray: restarted 2 times\n"));
}

TEST(ClosingLinesTest, AFailureToldOnStdoutIsQuotedFromThere) {
  const Lines out = {"epoch 1", "cannot open data.bin"};
  const std::string text = Text(BadVerdict(), {}, {.last_stdout = out});
  EXPECT_TRUE(Has(text, "last lines of its stdout:\n  | epoch 1\n  | cannot open data.bin\n"));
  EXPECT_FALSE(Has(Text(BadVerdict(), {"on stderr"}, {.last_stdout = out}), "epoch 1"));
}

TEST(ClosingLinesTest, AFailureNamesWhoHowWhenAndTheVictims) {
  ExpectGolden("tests/golden/report/closing_exit.txt",
               Text(BadVerdict(), {"Traceback (most recent call last):", "ValueError: 7"}));
}

TEST(ClosingLinesTest, QuietDoesNotHideAFailure) {
  EXPECT_EQ(Text(BadVerdict(), {}, {.is_quiet = true}), Text(BadVerdict()));
}

TEST(ClosingLinesTest, HorovodsSentencesAreThereForScriptsThatCallHorovodrun) {
  EXPECT_FALSE(Has(Text(BadVerdict()), "Process"));
  const std::string text = Text(BadVerdict(), {}, {.has_horovods_words = true});
  EXPECT_TRUE(Has(text,
                  "Process 2 exit with status code 7.\n"
                  "Terminating remaining workers after failure of Process 2.\n"
                  "Horovod detected that one or more processes exited with non-zero status, thus "
                  "causing the job to be terminated. The first process to do so was:\n"
                  "Process name: 2\nExit code: 7\n"));
}

TEST(ClosingLinesTest, ASignalIsNamedWithItsCore) {
  Verdict verdict = BadVerdict();
  Blame(verdict, {.signal = SIGSEGV, .has_core = true}, ErrorCode::kWorkerFailed);
  ExpectGolden("tests/golden/report/closing_signal.txt", Text(verdict));
}

TEST(ClosingLinesTest, OutOfMemoryIsSaidAndHasAHint) {
  Verdict verdict = BadVerdict();
  Blame(verdict, {.signal = SIGKILL, .is_oom = true}, ErrorCode::kWorkerFailed);
  ExpectGolden("tests/golden/report/closing_oom.txt", Text(verdict));
}

TEST(ClosingLinesTest, ACommandThatIsNotThereIsTheWorkersStory) {
  Verdict verdict = BadVerdict();
  Blame(verdict, {.stage = wire::ExecStage::kExec, .error = ENOENT}, ErrorCode::kCommandNotFound);
  verdict.origin = ExitOrigin::kHvdray;
  for (WorkerRecord& worker : verdict.workers) {
    if (worker.rank == 2) continue;
    worker.status.reset();
    worker.started.reset();
    worker.ended.reset();
    worker.pid = 0;
  }
  ExpectGolden("tests/golden/report/closing_not_found.txt", Text(verdict));
}

TEST(ClosingLinesTest, AHostThatWasLostHasCodeAndHint) {
  Verdict verdict = BadVerdict();
  verdict.first_failure.reset();
  verdict.origin = ExitOrigin::kHvdray;
  verdict.exit_code = 125;
  verdict.error = Status(ErrorCode::kAgentLost, "host node2: no heartbeat for 15 s",
                         "look at that host, or raise --heartbeat-timeout");
  for (const size_t rank : {2u, 3u}) {
    verdict.workers[rank].status.reset();
    verdict.workers[rank].is_victim = false;
  }
  ExpectGolden("tests/golden/report/closing_host_lost.txt", Text(verdict));
}

TEST(ClosingLinesTest, EachReasonForLostHostsHasItsLineAndAHintIsSaidOnce) {
  Verdict verdict = GoodVerdict();
  for (WorkerRecord& worker : verdict.workers) worker = {.rank = worker.rank, .host = worker.host};
  verdict.exit_code = 125;
  const auto lose = [&verdict](ErrorCode code, const char* message, const char* hint) {
    verdict.losses.push_back({Status(code, message, hint), {"node1"}});
  };
  lose(ErrorCode::kUnknownHost, "hosts node[1-9]: start agent on HOST: no such name", "look");
  lose(ErrorCode::kHostRefused, "host c: refused", "look");
  lose(ErrorCode::kHostBusy, "host d: full", "wait");
  verdict.error = verdict.losses.front().error;
  EXPECT_EQ(Text(verdict),
            "hvdray: never started: ranks 0-3\n"
            "hvdray: hosts node[1-9]: start agent on HOST: no such name [HVD-E0209]\n"
            "hvdray:   hint: look\n"
            "hvdray: host c: refused [HVD-E0202]\n"
            "hvdray: host d: full [HVD-E0214]\n"
            "hvdray:   hint: wait\n");
}

TEST(ClosingLinesTest, AnInterruptionIsNoWorkersFault) {
  Verdict verdict = BadVerdict();
  verdict.first_failure.reset();
  for (WorkerRecord& worker : verdict.workers) {
    worker.is_victim = false;
    worker.status = Killed(SIGTERM);
  }
  verdict.origin = ExitOrigin::kHvdray;
  verdict.exit_code = 130;
  verdict.error = Status(ErrorCode::kInterrupted, "stopped by SIGINT");
  EXPECT_EQ(Text(verdict), "hvdray: stopped: ranks 0-3\nhvdray: stopped by SIGINT [HVD-E0307]\n");
}

TEST(ClosingLinesTest, LostOutputTurnsSuccessIntoAnError) {
  Verdict verdict = GoodVerdict();
  verdict.exit_code = 125;
  verdict.error = Status(ErrorCode::kOutputLost, "write to stdout: No space left on device");
  EXPECT_EQ(Text(verdict), "hvdray: write to stdout: No space left on device [HVD-E0305]\n");
}

TEST(ClosingLinesTest, OthersThatFailedByThemselvesAreGroupedByHow) {
  Verdict verdict = BadVerdict();
  for (const size_t rank : {0u, 1u}) {
    verdict.workers[rank].is_victim = false;
    verdict.workers[rank].status = Exited(1);
  }
  const std::string text = Text(verdict);
  EXPECT_TRUE(Has(text, "hvdray: ranks 0,1 failed too: exited with code 1\n")) << text;
  EXPECT_TRUE(Has(text, "hvdray: stopped because of it: rank 3\n")) << text;
}

TEST(ClosingLinesTest, TheResetLimitIsInHorovodsWordsBelowTheFailureThatReachedIt) {
  const std::vector<MembershipRecord> rows = ElasticMemberships();
  Verdict verdict = BadVerdict();
  verdict.origin = ExitOrigin::kHvdray;
  verdict.exit_code = 1;
  verdict.error = Status(ErrorCode::kResetLimit,
                         "Horovod was shutdown because number of resets during elastic job "
                         "exceeded limit: 2",
                         "raise --reset-limit (now 2)");
  verdict.restarts = 2;
  ExpectGolden("tests/golden/report/closing_reset_limit.txt",
               Text(verdict, {"ValueError: 7"}, {.memberships = rows}));
}

TEST(ClosingLinesTest, ASuccessThatCameTooSoonNamesTheOthers) {
  const std::vector<MembershipRecord> rows = ElasticMemberships();
  Verdict verdict = GoodVerdict();
  for (const size_t rank : {1u, 2u, 3u}) verdict.workers[rank].status = Killed(SIGTERM);
  verdict.exit_code = 1;
  verdict.error =
      Status(ErrorCode::kPartialSuccess, "rank 0 on host node1 succeeded while 3 others had not");
  EXPECT_EQ(Text(verdict, {}, {.memberships = std::span(rows).first(1)}),
            "hvdray: stopped: ranks 1-3\n"
            "hvdray: succeeded: rank 0\n"
            "hvdray: rank 0 on host node1 succeeded while 3 others had not "
            "[HVD-E0310]\n");
}

TEST(ClosingLinesTest, AnElasticSuccessSaysHowOftenTheGangChanged) {
  const std::vector<MembershipRecord> rows = ElasticMemberships();
  Verdict verdict = GoodVerdict();
  verdict.restarts = 2;
  verdict.workers[3].status = Killed(SIGTERM);
  EXPECT_EQ(Text(verdict, {}, {.memberships = rows}),
            "hvdray: the gang changed 2 times, 2 to 3 workers; it paused for 0.35 s in all\n");
  EXPECT_EQ(Text(verdict, {}, {.is_quiet = true, .memberships = rows}), "");
  const std::string told = Text(verdict, {}, {.is_verbose = true, .memberships = rows});
  EXPECT_TRUE(Has(told, "-1 on b: rank 1 on host b was killed by SIGKILL\n")) << told;
  EXPECT_TRUE(Has(told, "hvdray: 3 workers succeeded after 12.4 s\n")) << told;
}

TEST(ClosingLinesTest, AThousandVictimsAreOneLine) {
  Verdict verdict = BadVerdict();
  for (int rank = 4; rank < 1200; ++rank) {
    verdict.workers.push_back(SampleWorker(rank, "node3", Killed(SIGTERM), 12.5));
    verdict.workers.back().is_victim = true;
  }
  const std::string text = Text(verdict);
  EXPECT_TRUE(Has(text, "ranks 0,1,3-1199\n")) << text;
  EXPECT_LT(text.size(), 1000u);
}

TEST(ClosingLinesTest, AQuotedLineCannotRepaintTheScreen) {
  const std::string text =
      Text(BadVerdict(), {"\x1b[31mred\x1b[0m\ttab\x07\x1b]0;title\x07", "cut \x1b[", "\x1b",
                          "eight bits: \x9b"
                          "2J, two bytes: \xc2\x9b"
                          "2J"});
  EXPECT_TRUE(Has(text, "  | red\ttab]0;title\n  | cut \n  | \n")) << text;
  EXPECT_TRUE(Has(text, "  | eight bits: \\x9b2J, two bytes: \\xc2\\x9b2J\n")) << text;
  EXPECT_FALSE(Has(text, "\x1b"));
}

TEST(ClosingLinesTest, ColorMarksTheCauseAndEndsWithItsLine) {
  const Lines lines = ClosingLines(BadVerdict(), {}, {.is_colored = true});
  int painted = 0;
  for (const std::string& line : lines) {
    if (!Has(line, "\x1b")) continue;
    ++painted;
    EXPECT_TRUE(line.ends_with("\x1b[0m")) << line;
  }
  EXPECT_EQ(painted, 1);
}

}  // namespace
}  // namespace hvdray
