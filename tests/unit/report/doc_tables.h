// SPDX-License-Identifier: Apache-2.0
// Reads the tables of a Markdown page, so that tests can compare documents with the code.
#ifndef HVDRAY_TESTS_UNIT_REPORT_DOC_TABLES_H_
#define HVDRAY_TESTS_UNIT_REPORT_DOC_TABLES_H_

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace hvdray {

using DocRow = std::vector<std::string>;

/// Cells of all table rows between the heading "## `heading`" and the next "## ", without the head.
inline std::vector<DocRow> DocRows(const std::string& path, const std::string& heading) {
  const Result<std::string> page = ReadFile(path);
  EXPECT_TRUE(page.ok()) << page.status().ToString();
  std::vector<DocRow> rows;
  if (!page.ok()) return rows;
  const size_t begin = page->find("\n## " + heading + "\n");
  EXPECT_NE(begin, std::string::npos) << "no heading " << heading;
  if (begin == std::string::npos) return rows;
  const size_t end = std::min(page->find("\n## ", begin + 1), page->size());
  int tables_line = 0;
  for (size_t at = begin + 1; at < end;) {
    const size_t stop = std::min(page->find('\n', at), end);
    const std::string_view line = std::string_view(*page).substr(at, stop - at);
    at = stop + 1;
    if (!line.starts_with("|")) continue;
    if (++tables_line <= 2) continue;  // The head and the line under it.
    DocRow row;
    for (size_t from = 1; from < line.size();) {
      const size_t bar = std::min(line.find('|', from), line.size());
      std::string_view cell = line.substr(from, bar - from);
      while (cell.starts_with(' ')) cell.remove_prefix(1);
      while (cell.ends_with(' ')) cell.remove_suffix(1);
      row.emplace_back(cell);
      from = bar + 1;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The words in backticks of a cell.
inline std::set<std::string> InBackticks(std::string_view cell) {
  std::set<std::string> words;
  for (size_t open = cell.find('`'); open != std::string_view::npos;) {
    const size_t close = cell.find('`', open + 1);
    if (close == std::string_view::npos) break;
    words.emplace(cell.substr(open + 1, close - open - 1));
    open = cell.find('`', close + 1);
  }
  return words;
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_REPORT_DOC_TABLES_H_
