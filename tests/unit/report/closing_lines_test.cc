// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "launcher/report/run_ending.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/unit/report/sample_elastic.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/report.txt");

using Lines = std::vector<std::string>;

std::string Text(const Verdict& verdict, const Lines& last = {}, ClosingStyle style = {}) {
  std::string text;
  for (const std::string& line : ClosingLines(verdict, last, style)) text += line + "\n";
  return text;
}

Lines LinesOf(const Verdict& verdict, const ClosingStyle& style = {}) {
  return ClosingLines(verdict, {}, style);
}

/// Expects one line of ours.
void ExpectLine(const std::string& text, Facts facts) {
  EXPECT_TRUE(text.starts_with("hvdray: ")) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  ExpectSays(text, facts);
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void Blame(Verdict& verdict, wire::ExitStatus status, ErrorCode code) {
  verdict.workers[2].status = status;
  verdict.first_failure = verdict.workers[2];
  verdict.exit_code = ExitCode(status);
  verdict.error = Status(code, "rank 2 on host node2 " + Describe(status));
}

TEST(ClosingLinesTest, PlainSuccessSaysNothing) { EXPECT_EQ(Text(GoodVerdict()), ""); }

TEST(ClosingLinesTest, WhoHadToBeKilledIsSaidWithAHintEvenIfQuiet) {
  for (const bool is_quiet : {false, true}) {
    Verdict verdict = GoodVerdict();
    verdict.exit_code = 143;
    verdict.error = Status(ErrorCode::kInterrupted, "stopped by SIGTERM");
    WorkerRecord& worker = verdict.workers[2];
    worker.was_stopping = true;
    worker.grace = std::chrono::seconds(30);
    worker.status = wire::ExitStatus{.signal = SIGKILL};
    const Lines lines = LinesOf(verdict, {.is_quiet = is_quiet});
    const auto killed = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return NamesFacts(line, {"killed", "30 s", "rank 2"});
    });
    ASSERT_NE(killed, lines.end());
    ASSERT_NE(killed + 1, lines.end());
    ExpectSays(*(killed + 1), {"hint", "--grace"});
  }
}

TEST(ClosingLinesTest, VerboseSuccessIsOneLine) {
  ExpectLine(Text(GoodVerdict(), {}, {.is_verbose = true}), {"4 workers succeeded", "12.4 s"});
}

TEST(ClosingLinesTest, OrphansAreMentionedUnlessQuiet) {
  Verdict verdict = GoodVerdict();
  verdict.swept = 2;
  ExpectLine(Text(verdict), {"killed 2 processes"});
  EXPECT_EQ(Text(verdict, {}, {.is_quiet = true}), "");
}

TEST(ClosingLinesTest, RestartsAreCountedOnlyWhereNoneWasTold) {
  Verdict verdict = BadVerdict();
  verdict.restarts = 2;
  EXPECT_FALSE(Has(Text(verdict), "restart"));
  ExpectSaid(LinesOf(verdict, {.is_quiet = true}), {"hvdray: ", "restarted", "2"});
}

TEST(ClosingLinesTest, AFailureToldOnStdoutIsQuotedFromThere) {
  const Lines out = {"epoch 1", "cannot open data.bin"};
  const std::string text = Text(BadVerdict(), {}, {.last_stdout = out});
  EXPECT_TRUE(Has(text, "stdout:\n  | epoch 1\n  | cannot open data.bin\n"));
  ExpectSaid(LinesOf(BadVerdict(), {.last_stdout = out}), {"stdout:"});
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
  verdict.is_first_certain = false;
  verdict.evidence = {"it ended first"};
  EXPECT_EQ(Text(verdict).find("probably"), std::string::npos) << Text(verdict);
}

TEST(ClosingLinesTest, AHintToTheModeOfAFileIsForModesOnly) {
  for (const int error : {ELOOP, ENOTDIR, E2BIG, ETXTBSY}) {
    Verdict verdict = BadVerdict();
    Blame(verdict, {.stage = wire::ExecStage::kExec, .error = error},
          ErrorCode::kCommandNotExecutable);
    EXPECT_EQ(Text(verdict).find("executable file"), std::string::npos) << Text(verdict);
  }
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
  const std::string text = Text(verdict);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
  ExpectSays(text, {verdict.error.message(), "[HVD-E0209]\n", "hint: look\n",
                    "host c: refused [HVD-E0202]\n", "host d: full [HVD-E0214]\n", "hint: wait\n",
                    "never started", "ranks 0-3\n"});
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
  EXPECT_EQ(LinesOf(verdict).size(), 2u);
  ExpectSays(Text(verdict), {verdict.error.message(), "[HVD-E0307]\n", "stopped", "ranks 0-3\n"});
}

TEST(ClosingLinesTest, LostOutputTurnsSuccessIntoAnError) {
  Verdict verdict = GoodVerdict();
  verdict.exit_code = 125;
  verdict.error = Status(ErrorCode::kOutputLost, "write to stdout: No space left on device");
  EXPECT_EQ(Text(verdict), "hvdray: " + verdict.error.message() + " [HVD-E0305]\n");
}

TEST(ClosingLinesTest, OthersThatFailedByThemselvesAreGroupedByHow) {
  Verdict verdict = BadVerdict();
  for (const size_t rank : {0u, 1u}) {
    verdict.workers[rank].is_victim = false;
    verdict.workers[rank].status = Exited(1);
  }
  ExpectSaid(LinesOf(verdict), {"hvdray: ", "ranks 0,1", "failed", "code 1"});
  ExpectSaid(LinesOf(verdict), {"hvdray: ", "stopped", "rank 3"});
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
  const ClosingStyle style{.memberships = std::span(rows).first(1)};
  EXPECT_EQ(LinesOf(verdict, style).size(), 3u);
  ExpectSays(Text(verdict, {}, style), {verdict.error.message(), "[HVD-E0310]\n", "stopped",
                                        "ranks 1-3\n", "succeeded", "rank 0\n"});
}

TEST(ClosingLinesTest, AnElasticSuccessSaysHowOftenTheGangChanged) {
  const std::vector<MembershipRecord> rows = ElasticMemberships();
  Verdict verdict = GoodVerdict();
  verdict.restarts = 2;
  verdict.workers[3].status = Killed(SIGTERM);
  ExpectLine(Text(verdict, {}, {.memberships = rows}),
             {"changed 2 times", "2 to 3 workers", "0.35 s"});
  EXPECT_EQ(Text(verdict, {}, {.is_quiet = true, .memberships = rows}), "");
  const Lines told = LinesOf(verdict, {.is_verbose = true, .memberships = rows});
  ExpectSaid(told, {"-1 on b", rows.back().changes[0].why});
  ExpectSaid(told, {"3 workers succeeded", "12.4 s"});
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
