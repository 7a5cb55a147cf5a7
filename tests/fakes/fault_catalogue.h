// SPDX-License-Identifier: Apache-2.0
// Tests assert what a program may rely on: the code of a fault and the origin that it names. The
// wording of all faults of a test program is in one golden file, where it can be read at a stretch.
#ifndef HVDRAY_TESTS_FAKES_FAULT_CATALOGUE_H_
#define HVDRAY_TESTS_FAKES_FAULT_CATALOGUE_H_

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "tests/fakes/golden.h"

namespace hvdray {

/// The faults that the tests of one program provoke, each with its input. After a run of all tests
/// it compares them with its golden file; after a run of some it does nothing. Use: `const auto*
/// const kCatalogue = FaultCatalogue::Install("tests/golden/messages/x.txt");`
class FaultCatalogue : public ::testing::Environment {
 public:
  static FaultCatalogue* Install(const std::string& path) {
    auto* const catalogue = new FaultCatalogue(path);
    Installed() = catalogue;
    ::testing::AddGlobalTestEnvironment(catalogue);  // Owns it from here on.
    return catalogue;
  }

  static void Add(std::string_view input, const std::string& text) {
    if (Installed() == nullptr) return;
    Installed()->entries_.insert("<- " + ShownText(input, 160) + "\n" + text + "\n");
  }

  void TearDown() override {
    const bool is_whole = ::testing::GTEST_FLAG(filter) == "*";
    if (!is_whole || ::testing::UnitTest::GetInstance()->Failed()) return;
    std::string text;
    for (const std::string& entry : entries_) text += entry;
    ExpectGolden(path_, text);
  }

 private:
  explicit FaultCatalogue(std::string path) : path_(std::move(path)) {}
  static FaultCatalogue*& Installed() {
    static FaultCatalogue* catalogue = nullptr;
    return catalogue;
  }

  std::string path_;
  std::set<std::string> entries_;
};

/// `message` is one line that begins with `origin` as a whole: "flag -np", "job.yaml:1:5". An empty
/// origin asserts nothing.
inline bool NamesOrigin(std::string_view message, std::string_view origin) {
  if (message.empty() || message.find('\n') != std::string_view::npos) return false;
  if (origin.empty()) return true;
  const std::string_view rest = message.substr(std::min(origin.size(), message.size()));
  return message.starts_with(origin) && (rest.starts_with(' ') || rest.starts_with(": "));
}

/// Expects that `input` failed with `code`, naming `origin`; its wording goes into the catalogue.
inline void ExpectFault(std::string_view input, const Status& status, ErrorCode code,
                        std::string_view origin = {}) {
  EXPECT_EQ(status.code(), code) << input << ": " << status.ToString();
  EXPECT_TRUE(NamesOrigin(status.message(), origin)) << input << ": " << status.ToString();
  FaultCatalogue::Add(input, status.ToString());
}

/// Expects one warning for each of `origins`, in order; their wording goes into the catalogue.
inline void ExpectWarnings(std::string_view input, const std::vector<std::string>& warnings,
                           const std::vector<std::string>& origins) {
  EXPECT_EQ(warnings.size(), origins.size()) << input;
  for (size_t i = 0; i < warnings.size() && i < origins.size(); ++i) {
    EXPECT_TRUE(NamesOrigin(warnings[i], origins[i])) << input << ": " << warnings[i];
    FaultCatalogue::Add(input, "warning: " + warnings[i]);
  }
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAULT_CATALOGUE_H_
