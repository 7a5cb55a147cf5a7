// SPDX-License-Identifier: Apache-2.0
// Exit code and message of every reason to end.
#include "launcher/driver/cause.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/driver.txt");

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<std::string> kOne = {"b"};
const std::vector<std::string> kTwo = {"node1", "node2"};

TEST(CauseTest, HasTheDocumentedExitCodes) {
  EXPECT_EQ(SuccessCause().exit_code, 0);
  EXPECT_EQ(TimeoutCause(seconds(1)).exit_code, 124);
  EXPECT_EQ(StartTimeoutCause(kOne, "x", seconds(1)).exit_code, 125);
  EXPECT_EQ(StopTimeoutCause(kOne, seconds(1)).exit_code, 125);
  EXPECT_EQ(HostLostCause({ErrorCode::kAgentLost, "x"}).exit_code, 125);
  EXPECT_EQ(InterruptedCause(SIGHUP).exit_code, 129);
  EXPECT_EQ(InterruptedCause(SIGINT).exit_code, 130);
  EXPECT_EQ(InterruptedCause(SIGTERM).exit_code, 143);
  EXPECT_EQ(ReaderGoneCause().exit_code, 141);
}

TEST(CauseTest, BlamesTheWorkerOnlyForWhatItDidItself) {
  WorkerRecord worker{.rank = 3, .host = "b", .status = wire::ExitStatus{.exit_code = 125}};
  EXPECT_EQ(WorkerFailedCause(worker, 0).origin, ExitOrigin::kWorker);
  worker.status->stage = wire::ExecStage::kFork;
  EXPECT_EQ(WorkerFailedCause(worker, 0).origin, ExitOrigin::kHvdray);
  EXPECT_EQ(WorkerFailedCause(worker, 0).exit_code, 125);
  EXPECT_EQ(WorkerFailedCause(worker, 0).error.hint(), "");
  worker.status->stage = wire::ExecStage::kDirectory;
  for (const auto& [error, hint] : {std::pair(ENOENT, "--sync ."), {EPERM, "--sync .:TARGET"}}) {
    worker.status->error = error;
    EXPECT_NE(WorkerFailedCause(worker, 0).error.hint().find(hint), std::string::npos);
  }
}

TEST(CauseTest, CountsRestartsInWords) {
  const WorkerRecord worker{.rank = 3, .host = "b", .status = wire::ExitStatus{.exit_code = 1}};
  const Status first = WorkerFailedCause(worker, 0).error;
  ExpectError(first, ErrorCode::kWorkerFailed, {"rank 3", "host b", "code 1"});
  EXPECT_FALSE(NamesFacts(first.message(), {"restart"}));
  ExpectError(WorkerFailedCause(worker, 1).error, ErrorCode::kWorkerFailed,
              {"rank 3", "host b", "code 1", "1 restart"});
}

TEST(CauseTest, SaysWhatToDoAboutATimeout) {
  ExpectError(StartTimeoutCause(kTwo, "become ready", milliseconds(1500)).error,
              ErrorCode::kDeadlineExceeded,
              {"hosts node[1-2]", "become ready", "1.5 s", "hint: ", "--start-timeout", "1.5 s"});
  ExpectError(TimeoutCause(seconds(60)).error, ErrorCode::kTimeout,
              {"60 s", "hint: ", "--timeout"});
}

TEST(CauseTest, KnowsSignalsWithoutAName) {
  EXPECT_EQ(InterruptedCause(SIGTERM).error.message(), "stopped by SIGTERM");
  EXPECT_EQ(InterruptedCause(120).error.message(), "stopped by signal 120");
}

}  // namespace
}  // namespace hvdray
