// SPDX-License-Identifier: Apache-2.0
// Tests assert what a program may rely on: the code of a fault, the origin that it names, and the
// hosts, ranks, numbers and options in a sentence. The wording of all sentences of a test program
// is in one golden file, where it can be read at a stretch.
#ifndef HVDRAY_TESTS_FAKES_FAULT_CATALOGUE_H_
#define HVDRAY_TESTS_FAKES_FAULT_CATALOGUE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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

  /// Paths of a TempDirectory, which are other ones each time, are written as TMP.
  static void Add(std::string_view input, const std::string& text) {
    if (Installed() == nullptr) return;
    std::string entry = "<- " + ShownText(input, 160) + "\n" + text + "\n";
    constexpr std::string_view kTemp = "/hvdray-test-";
    constexpr size_t kRandom = 6;
    for (size_t at; (at = entry.find(kTemp)) != std::string::npos;) {
      const size_t begin = entry.find_last_of(" ':\n", at) + 1;
      entry.replace(begin, at + kTemp.size() + kRandom - begin, "TMP");
    }
    Installed()->entries_.insert(std::move(entry));
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

/// What a sentence must name: "host b", "rank 3", "30 s", "--timeout".
using Facts = std::initializer_list<std::string_view>;

/// Whether `text` names all of `facts` in this order, each as whole words: "3 s" is not in "13 s".
inline bool NamesFacts(std::string_view text, Facts facts) {
  const auto is_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  size_t from = 0;
  for (const std::string_view fact : facts) {
    if (fact.empty()) return false;
    const auto is_whole = [&](size_t at) {
      const size_t end = at + fact.size();
      return !(at > 0 && is_word(text[at - 1]) && is_word(fact.front())) &&
             !(end < text.size() && is_word(text[end]) && is_word(fact.back()));
    };
    size_t at = text.find(fact, from);
    while (at != std::string_view::npos && !is_whole(at)) at = text.find(fact, at + 1);
    if (at == std::string_view::npos) return false;
    from = at + fact.size();
  }
  return true;
}

/// Expects that `text`, said in the current test, names `facts`; its wording goes into the
/// catalogue, with the name of the test.
inline void ExpectSays(std::string_view text, Facts facts) {
  if (!NamesFacts(text, facts)) {
    ADD_FAILURE() << text << "\ndoes not name, in this order: " << ::testing::PrintToString(facts);
    return;
  }
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  FaultCatalogue::Add(std::string(test->test_suite_name()) + "." + test->name(), std::string(text));
}

/// Expects that one of `lines` names `facts`; the wording of the first such line goes into the
/// catalogue.
inline void ExpectSaid(const std::vector<std::string>& lines, Facts facts) {
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const std::string& one) { return NamesFacts(one, facts); });
  ASSERT_NE(line, lines.end()) << ::testing::PrintToString(lines);
  ExpectSays(*line, facts);
}

/// Expects `code`, and that the message, then the hint, name `facts`.
inline void ExpectError(const Status& status, ErrorCode code, Facts facts) {
  ASSERT_EQ(status.code(), code) << status.ToString();
  ExpectSays(status.ToString(), facts);
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAULT_CATALOGUE_H_
