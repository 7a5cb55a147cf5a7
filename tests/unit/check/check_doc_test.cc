// SPDX-License-Identifier: Apache-2.0
// docs/check.md says exactly what is written.
#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/json.h"
#include "launcher/report/check_text.h"
#include "tests/unit/check/sample_check.h"
#include "tests/unit/report/doc_tables.h"

namespace hvdray {
namespace {

constexpr const char* kPage = "docs/check.md";

void Flatten(const Json& json, const std::string& path, std::set<std::string>& keys) {
  if (path == "hosts[].facts.limits" || path.ends_with("error")) {
    keys.insert(path);  // described as a whole
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      Flatten(value, path.empty() ? key : path + "." + key, keys);
    }
  } else if (json.is_array() && json.empty()) {
    return;  // of what it might be is told by one that is not
  } else if (json.is_array() && json[0].is_object()) {
    for (const Json& element : json) Flatten(element, path + "[]", keys);
  } else if (path != "hosts[].clock") {  // null of a host that was lost
    keys.insert(path);
  }
}

TEST(CheckDocTest, EveryKeyIsDocumentedAndNoOther) {
  const CheckFacts facts = BadFacts();
  const Result<Json> json = ParseJson(CheckJson(facts, FindFindings(facts)));
  ASSERT_TRUE(json.ok());
  std::set<std::string> written;
  Flatten(*json, "", written);
  std::set<std::string> documented;
  for (const DocRow& row : DocRows(kPage, "JSON")) documented.merge(InBackticks(row.at(0)));
  EXPECT_EQ(written, documented);
}

TEST(CheckDocTest, EveryKindOfFindingIsDocumentedAndNoOther) {
  std::set<std::string> documented;
  for (const DocRow& row : DocRows(kPage, "Findings")) documented.merge(InBackticks(row.at(0)));
  EXPECT_EQ(std::set<std::string>(kFindingKinds.begin(), kFindingKinds.end()), documented);
}

TEST(CheckDocTest, ThePageNamesTheSchemaInForce) {
  const std::string page = ReadFile(kPage).value();
  EXPECT_NE(page.find("`" + std::string(kCheckSchema) + "`"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
