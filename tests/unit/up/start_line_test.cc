// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/start_line.h"

#include <gtest/gtest.h>

#include <utility>

namespace hvdray {
namespace {

TEST(StartLineTest, RayStopIsTakenOutWhereverItStands) {
  const std::pair<const char*, const char*> kLines[] = {
      {"conda activate ml && ray stop", "conda activate ml && true"},
      {"ray stop --force; ulimit -n 65536; ray start --head",
       "true; ulimit -n 65536; ray start --head"},
      {"ray stop >/dev/null 2>&1 || true; ray start", "true || true; ray start"},
      {"ray stop &> log & wait", "true & wait"},
      {"~/ml/bin/ray stop -f\nray start", "true\nray start"},
      {"\"$CONDA_PREFIX/bin/ray\" stop && x", "true && x"},
      {"sudo -E env A=b ray stop | tee log", "true | tee log"},
      {"conda run -n ml ray stop", "true"},
      {"if ! ray stop; then echo no; fi", "if ! true; then echo no; fi"},
      {"(cd x; ray stop)", "(cd x; true)"},
      {"python -m ray.scripts.scripts stop", "true"},
      {"bash -lc 'source a; ray stop; ray start'", "bash -lc 'source a; true; ray start'"},
      {"bash -c \"ray stop\"", "bash -c \"true\""},
      {"A='x;y' ray --log-style=record stop", "true"},
      {"ray --logging-level debug stop -f", "true"},
      {"ray \\\n  stop --force && x", "true && x"},
      {"$(which ray) stop; \\ray stop; `command -v ray` stop", "true; true; true"},
      {"bash --login -c -i 'ray stop'", "bash --login -c -i 'true'"},
      {"bash -euo pipefail -c 'a; ray stop'", "bash -euo pipefail -c 'a; true'"},
      {"bash -cx 'ray stop'", "bash -cx 'true'"},
      {"su - ml -c 'ray stop'", "su - ml -c 'true'"},
      {"flock /tmp/l -c \"ray stop\" && x", "flock /tmp/l -c \"true\" && x"},
      {"eval \"$X; ray stop\"", "eval \"$X; true\""},
      {"bash -c \"conda activate \\\"$E\\\" && ray stop\"",
       "bash -c \"conda activate \\\"$E\\\" && true\""},
      {"sh -c \"sh -c \\\"ray stop\\\"\"", "sh -c \"sh -c \\\"true\\\"\""},
      {"out=$(ray stop 2>&1) || echo \"it's $out\"", "out=$(true) || echo \"it's $out\""},
      {"echo \"it's $(ray stop)\"", "echo \"it's $(true)\""},
      {"X=\"`ray stop`\"", "X=\"`true`\""},
  };
  for (const auto& [line, without] : kLines) EXPECT_EQ(WithoutRayStop(line), without);
}

TEST(StartLineTest, WhatStopsNoRayStaysAsItIs) {
  for (const auto* line : {"ray start --head",
                           "echo ray stop",
                           "echo 'a; ray stop'",
                           "# ray stop",
                           "ray",
                           "xray stop",
                           "rayon stop",
                           "ray start # then ray stop",
                           "export X='ray stop'",
                           "\"",
                           "'",
                           "$(",
                           "a\\",
                           "stop ray; ray start",
                           "cat <<EOF",
                           "",
                           "pkill -f 'ray stop'",
                           "grep -c 'ray stop' log",
                           "X='ray stop'",
                           "sh -c \"",
                           "echo '$(ray stop)'",
                           "pip install 'ray stop'"}) {
    EXPECT_EQ(WithoutRayStop(line), line);
  }
}

TEST(StartLineTest, QuotesInQuotesWithoutEndEndNothingElse) {
  std::string line;
  for (int i = 0; i < 200'000; ++i) line += "$(\"";
  EXPECT_EQ(WithoutRayStop(line), line);
}

TEST(StartLineTest, ALineThatOnlyStopsRayIsKnown) {
  for (const auto* line :
       {"ray stop", "  ray   stop --force ", "ray stop || true", "(ray stop; :)"}) {
    EXPECT_TRUE(IsRayStop(line)) << line;
  }
  for (const auto* line :
       {"ray stop; ray start --head", "ray", "true", "", "conda activate ml && ray stop"}) {
    EXPECT_FALSE(IsRayStop(line)) << line;
  }
}

TEST(StartLineTest, TheLinesBeforeSayWhichRayIsStarted) {
  struct Case {
    const char* line;
    const char* before;
    const char* program;
    bool is_certain;
  };
  const Case kCases[] = {
      {"ray start --head", "", "ray", true},
      {"ulimit -n 65536; ray start --head", "", "ray", true},
      {"export PATH=/opt/ml/bin:$PATH && ray start", "export PATH=/opt/ml/bin:$PATH\n", "ray",
       true},
      {"source ~/ml/bin/activate; ray start", "source ~/ml/bin/activate\n", "ray", true},
      {"conda activate 'a b' && ray stop; ray start", "conda activate 'a b'\n", "ray", true},
      {"nohup \"$HOME\"/ml/bin/ray start --block &", "", "\"$HOME\"/ml/bin/ray", true},
      {"PATH=/x:$PATH ray start", "export PATH=/x:$PATH\n", "ray", true},
      {"if true; then . ./env; fi; ray start", ". ./env\n", "ray", true},
      {"use_ml; ray start", "", "ray", false},
  };
  for (const Case& one : kCases) {
    const auto reach = ReachOfRay(one.line);
    ASSERT_TRUE(reach.has_value()) << one.line;
    EXPECT_EQ(reach->before, one.before) << one.line;
    EXPECT_EQ(reach->program, one.program) << one.line;
    EXPECT_EQ(reach->is_certain, one.is_certain) << one.line;
  }
  for (const auto* line :
       {"./start.sh", "conda run -n ml ray start", "ray status", "echo ray start",
        "python -m ray.scripts.scripts start", "bash -c 'ray start'"}) {
    EXPECT_FALSE(ReachOfRay(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace hvdray
