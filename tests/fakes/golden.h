// Comparison with a file under tests/golden/. HVDRAY_UPDATE_GOLDEN=1 in the environment rewrites
// the file instead (tools/update_golden.py sets it); the diff is reviewed.
#ifndef HVDRAY_TESTS_FAKES_GOLDEN_H_
#define HVDRAY_TESTS_FAKES_GOLDEN_H_

#include <gtest/gtest.h>

#include <string>

#include "base/environ.h"
#include "base/fd.h"
#include "base/file.h"

namespace hvdray {

/// `path` counts from the top of the source tree, where tests run.
inline void ExpectGolden(const std::string& path, const std::string& text) {
  if (Environment::FromProcess().Get("HVDRAY_UPDATE_GOLDEN") == "1") {
    ASSERT_TRUE(MakeDirs(path.substr(0, path.rfind('/'))).ok());
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }
  const Result<std::string> golden = ReadFile(path);
  ASSERT_TRUE(golden.ok()) << golden.status().ToString();
  EXPECT_EQ(text, golden.value()) << path;
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_GOLDEN_H_
