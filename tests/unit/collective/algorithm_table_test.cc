// SPDX-License-Identifier: Apache-2.0
#include "collective/algorithm_table.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(AlgorithmTableTest, ItsTextIsReadAsItself) {
  AlgorithmTable table;
  table.shm_direct = 1;
  table.slices = 0;
  table.network_ring = UINT64_MAX;
  const Result<AlgorithmTable> read = ParseAlgorithmTable(ToText(table));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, table);
}

TEST(AlgorithmTableTest, WhatIsNotNamedKeepsItsDefault) {
  AlgorithmTable expected;
  expected.network_doubling = 7;
  const auto read = ParseAlgorithmTable("# by hand\n\n\tnetwork_doubling   7 # small\r\n");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, expected);
  EXPECT_EQ(*ParseAlgorithmTable(""), AlgorithmTable());
}

TEST(AlgorithmTableTest, AWrongLineIsNamed) {
  const auto message = [](std::string_view text) {
    return ParseAlgorithmTable(text).status().message();
  };
  EXPECT_EQ(message("slices 1\nslice 2\n"), "line 2: unknown size \"slice\"");
  EXPECT_EQ(message("slices"), "line 1: slices must be a number of bytes, not \"\"");
  EXPECT_EQ(message("slices 1 MB"), "line 1: slices must be a number of bytes, not \"1 MB\"");
  EXPECT_EQ(message("slices -1"), "line 1: slices must be a number of bytes, not \"-1\"");
}

}  // namespace
}  // namespace hvdray
