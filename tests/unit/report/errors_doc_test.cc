// SPDX-License-Identifier: Apache-2.0
// docs/errors.md matches the catalogue.
#include <gtest/gtest.h>

#include "base/error_code.h"
#include "tests/unit/report/doc_tables.h"

namespace hvdray {
namespace {

TEST(ErrorsDocTest, EachCodeHasItsRowInOrder) {
  const std::vector<DocRow> rows = DocRows("docs/errors.md", "Errors");
  const std::span<const ErrorInfo> catalogue = ErrorCatalogue();
  ASSERT_EQ(rows.size(), catalogue.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const ErrorInfo& info = catalogue[i];
    const DocRow& row = rows[i];
    ASSERT_EQ(row.size(), 6u) << row.at(0);
    EXPECT_EQ(row[0], ErrorLabel(info.code));
    EXPECT_EQ(row[1], info.name) << row[0];
    EXPECT_EQ(row[2], info.is_retriable ? "yes" : "no") << row[0];
    EXPECT_GT(row[4].size(), 10u) << row[0] << " does not say what it means";
    EXPECT_GT(row[5].size(), 10u) << row[0] << " does not say what to do";
  }
}

TEST(ErrorsDocTest, EachExitCodeIsOneOfTheTableAbove) {
  std::set<std::string> codes = {"worker", "signal"};
  for (const DocRow& row : DocRows("docs/errors.md", "Exit codes")) codes.insert(row.at(0));
  for (const DocRow& row : DocRows("docs/errors.md", "Errors")) {
    EXPECT_TRUE(codes.contains(row.at(3))) << row.at(0) << ": " << row.at(3);
  }
}

}  // namespace
}  // namespace hvdray
