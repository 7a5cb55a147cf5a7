// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

TEST(SyncWordTest, TargetIsBehindTheLastColon) {
  EXPECT_EQ(ParseSyncWord("dir").value(), (SyncWord{"dir", "", false}));
  EXPECT_EQ(ParseSyncWord("dir:/x").value(), (SyncWord{"dir", "/x", true}));
  EXPECT_EQ(ParseSyncWord("a:b:c").value(), (SyncWord{"a:b", "c", true}));
  EXPECT_EQ(ParseSyncWord("a:b:").value(), (SyncWord{"a:b", "", false}));
}

TEST(SyncWordTest, TildeIsTheHomeDirectoryThere) {
  EXPECT_EQ(ParseSyncWord("d:~").value().target, ".");
  EXPECT_EQ(ParseSyncWord("d:~/").value().target, ".");
  EXPECT_EQ(ParseSyncWord("d:~/x").value().target, "x");
}

TEST(SyncWordTest, WhatNamesNoPlaceIsRefused) {
  for (const std::string& word :
       {std::string(), std::string(":x"), std::string("d:.."), std::string("d:a/../b"),
        std::string("d:/.."), std::string("d:~me/x"), "d:" + std::string(4001, 'x'),
        std::string("d\0x", 3)}) {
    EXPECT_EQ(ParseSyncWord(word).status().code(), ErrorCode::kUsage) << word;
  }
}

TEST(SyncWordTest, WordComesBackAsItWasMeant) {
  for (const char* word : {"dir", "dir:/x", "a:b:c", "a:b:", "d:."}) {
    EXPECT_EQ(SyncText(ParseSyncWord(word).value()), word);
  }
}

}  // namespace
}  // namespace hvdray
