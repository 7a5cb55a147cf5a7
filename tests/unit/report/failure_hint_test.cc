// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>

#include "launcher/report/run_ending.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/unit/report/sample_job.h"

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string HintFor(const Lines& last_lines, const ClosingStyle& style = {}) {
  return FailureHint(BadVerdict(), last_lines, style);
}

std::string HintForExec(int error, const ClosingStyle& style) {
  Verdict verdict = BadVerdict();
  verdict.first_failure->status = wire::ExitStatus{.stage = wire::ExecStage::kExec, .error = error};
  return FailureHint(verdict, {}, style);
}

TEST(FailureHintTest, APeerOnLoopbackIsAHostWhoseNameResolvesToThat) {
  for (const char* line :
       {"RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error, remote=[127.0.1.1]",
        "[pair.cc:799] connect [127.0.1.1]:12345: Connection refused",
        "RuntimeError: timed out connecting: Connection refused, remote=[::ffff:127.0.1.1]:2000"}) {
    EXPECT_TRUE(Has(HintFor({"Traceback:", line}), "/etc/hosts")) << line;
  }
  for (const char* line : {"http://127.0.0.1:4000/ refused", "listening on [127.0.0.1]:80",
                           "Connection refused, remote=[10.0.0.2]:4000"}) {
    EXPECT_EQ(HintFor({line}), "") << line;
  }
  Verdict alone = BadVerdict();
  for (WorkerRecord& worker : alone.workers) worker.host = alone.first_failure->host;
  EXPECT_EQ(FailureHint(alone, Lines{"connect [127.0.1.1]:1: Connection refused"}, {}), "");
  for (WorkerRecord& worker : alone.workers) worker.host = "localhost";
  alone.workers.back().host = "127.1";
  EXPECT_EQ(FailureHint(alone, Lines{"connect [127.0.1.1]:1: Connection refused"}, {}), "");
}

TEST(FailureHintTest, ATorchScriptInAHorovodElasticJobIsSentToGangs) {
  const ClosingStyle elastic{.outlives_changes = true};
  for (const char* line :
       {"ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
        "variable RANK expected, but not set",
        "KeyError: 'LOCAL_RANK'"}) {
    EXPECT_TRUE(Has(HintFor({line}, elastic), "--elastic-mode gang")) << line;
    EXPECT_EQ(HintFor({line}), "") << line;
  }
  EXPECT_EQ(HintFor({"KeyError: 'MY_RANKING'"}, elastic), "");
}

TEST(FailureHintTest, APackageThatTheScriptsPythonLacksIsNamed) {
  for (const char* line : {"ModuleNotFoundError: No module named 'hvdray'",
                           "ModuleNotFoundError: No module named 'hvdray.torch'"}) {
    EXPECT_TRUE(Has(HintFor({"Traceback:", line}), "pip install")) << line;
  }
  EXPECT_EQ(HintFor({"ModuleNotFoundError: No module named 'torch'"}), "");
}

TEST(FailureHintTest, WhereHorovodIsMissingTheBuiltInOneIsNamed) {
  EXPECT_TRUE(
      Has(HintFor({"ModuleNotFoundError: No module named 'horovod'"}), "--horovod builtin"));
  EXPECT_EQ(HintFor({"ModuleNotFoundError: No module named 'horovod_tools'"}), "");
  EXPECT_TRUE(Has(
      HintFor({"ModuleNotFoundError: No module named 'horovod'"}, {.has_builtin_horovod = true}),
      "python -I"));
}

TEST(FailureHintTest, ABareScriptAndADosLineEndAreNamed) {
  EXPECT_TRUE(Has(HintForExec(ENOENT, {.command = "ddp.py"}), "python3 ddp.py"));
  EXPECT_TRUE(Has(HintForExec(EACCES, {.command = "./ddp.py"}), "python3 ./ddp.py"));
  EXPECT_EQ(HintForExec(ENOENT, {.command = "ddp"}), "");
  ExpectSays(HintForExec(ELIBACC, {.command = "./a.py", .interpreter = "/bin/python\r"}),
             {"/bin/python", "carriage return"});
  ExpectSays(HintForExec(ELIBACC, {.command = "./a"}), {"file ./a", "loader"});
  ExpectSays(HintForExec(ELIBACC, {.command = "./a", .interpreter = "/lib/ld-musl-x86_64.so.1"}),
             {"./a", "was built for a system with /lib/ld-musl-x86_64.so.1"});
}

}  // namespace
}  // namespace hvdray
