// SPDX-License-Identifier: Apache-2.0
// Runs the tests, or becomes the probe that they start.
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstring>

#include "tests/unit/agent/probe.h"

int main(int argc, char** argv) {
  if (argc > 1 && ::strcmp(argv[1], hvdray::kProbeFlag) == 0) return hvdray::RunProbe(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  // As the agent does.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  return RUN_ALL_TESTS();
}
