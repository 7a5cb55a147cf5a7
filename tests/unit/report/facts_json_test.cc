// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/facts_json.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/report/sample_job.h"

namespace hvdray {
namespace {

TEST(SignalNameTest, NamesWhatTheKernelNames) {
  EXPECT_EQ(SignalName(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(SignalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(SignalName(SIGRTMIN + 3), "SIGRTMIN+3");
  EXPECT_EQ(SignalName(200), "signal 200");
  EXPECT_EQ(SignalName(-1), "signal -1");
}

TEST(ErrorJsonTest, SuccessIsNull) { EXPECT_TRUE(ErrorJson({}).is_null()); }

TEST(ErrorJsonTest, CarriesNumberNameAndWhetherToTryAgain) {
  const Json json = ErrorJson({ErrorCode::kConnectTimeout, "no answer", "check it"});
  EXPECT_EQ(DumpJson(json), R"({"code":"HVD-E0204","name":"connect_timeout","message":"no answer",)"
                            R"("hint":"check it","retriable":true})");
}

TEST(ExitJsonTest, SuccessHasNoErrors) {
  EXPECT_EQ(DumpJson(ExitJson(GoodVerdict())),
            R"({"code":0,"origin":"hvdray","error":null,"more_errors":[]})");
}

TEST(ExitJsonTest, LostHostsAreListedByReason) {
  Verdict verdict = GoodVerdict();
  verdict.losses = {{Status(ErrorCode::kUnknownHost, "hosts a[1-2]: no name"), {"a1", "a2"}},
                    {Status(ErrorCode::kHostRefused, "host b: refused", "look"), {"b"}}};
  verdict.error = verdict.losses.front().error;
  const Json json = ExitJson(verdict);
  EXPECT_EQ(json["error"]["name"], "unknown_host");
  EXPECT_EQ(DumpJson(json["error"]["hosts"]), R"(["a1","a2"])");
  EXPECT_EQ(DumpJson(json["more_errors"]),
            R"([{"code":"HVD-E0202","name":"host_refused","message":"host b: refused",)"
            R"("hint":"look","retriable":true,"hosts":["b"]}])");
}

TEST(ExitJsonTest, AnErrorOfAnotherKindHasNoHosts) {
  const Json json = ExitJson(BadVerdict());
  EXPECT_EQ(DumpJson(json["error"]["hosts"]), "[]");
  EXPECT_EQ(DumpJson(json["more_errors"]), "[]");
}

TEST(AddEndTest, AWorkerWithoutAnEndHasNulls) {
  Json json;
  AddEnd(json, std::nullopt);
  EXPECT_EQ(DumpJson(json),
            R"({"exit_code":null,"signal":null,"description":null,"oom":null,"core":null})");
}

TEST(AddEndTest, ASignalHasItsNameAndTheShellsCode) {
  Json json;
  AddEnd(json, wire::ExitStatus{.signal = SIGSEGV, .has_core = true});
  EXPECT_EQ(json["exit_code"], 139);
  EXPECT_EQ(json["signal"], "SIGSEGV");
  EXPECT_EQ(json["core"], true);
  EXPECT_EQ(json["oom"], false);
}

TEST(OffsetTest, IsInSecondsToTheMicrosecond) {
  EXPECT_EQ(DumpJson(Offset(At(1), At(2.25))), "1.25");
  EXPECT_EQ(DumpJson(Offset(At(0), At(0) + std::chrono::nanoseconds(1'234'567))), "0.001235");
  EXPECT_TRUE(OffsetJson(At(0), std::nullopt).is_null());
}

TEST(WallTextTest, IsUtcWithMilliseconds) {
  using std::chrono::milliseconds;
  EXPECT_EQ(WallText(std::chrono::system_clock::time_point(milliseconds(1'795'232'250'007))),
            "2026-11-21T03:37:30.007Z");
  EXPECT_EQ(WallText(std::chrono::system_clock::time_point(milliseconds(-1))),
            "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace hvdray
