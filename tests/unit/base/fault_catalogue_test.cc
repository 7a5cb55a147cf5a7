// SPDX-License-Identifier: Apache-2.0
// The expectations of tests/fakes/fault_catalogue.h fail where they should.
#include "tests/fakes/fault_catalogue.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(FaultCatalogueTest, FactsAreWholeWordsInTheirOrder) {
  const char* const text = "host b did not start within 13 s; raise --start-timeout (now 13 s)";
  EXPECT_TRUE(NamesFacts(text, {}));
  EXPECT_TRUE(NamesFacts(text, {"host b", "13 s", "--start-timeout", "13 s"}));
  EXPECT_TRUE(NamesFacts(text, {"host b ", "13 s)"}));
  EXPECT_FALSE(NamesFacts(text, {"3 s"})) << "a part of a number is another number";
  EXPECT_FALSE(NamesFacts(text, {"start-time"})) << "a part of a word is another word";
  EXPECT_FALSE(NamesFacts(text, {"13 s", "host b"})) << "the other way round";
  EXPECT_FALSE(NamesFacts(text, {"13 s", "13 s", "13 s"})) << "each fact stands for itself";
  EXPECT_FALSE(NamesFacts(text, {""})) << "which says nothing";
  EXPECT_FALSE(NamesFacts("", {"host b"}));
}

TEST(FaultCatalogueTest, AnOriginIsTheWholeBeginningOfALine) {
  EXPECT_TRUE(NamesOrigin("flag -np: no", "flag -np"));
  EXPECT_TRUE(NamesOrigin("np must be a number", "np"));
  EXPECT_TRUE(NamesOrigin("anything", ""));
  EXPECT_FALSE(NamesOrigin("flag -npx: no", "flag -np"));
  EXPECT_FALSE(NamesOrigin("the flag -np: no", "flag -np"));
  EXPECT_FALSE(NamesOrigin("flag -np: two\nlines", "flag -np"));
  EXPECT_FALSE(NamesOrigin("", ""));
}

TEST(FaultCatalogueTest, ExpectationsFailForWhatIsNotThere) {
  EXPECT_NONFATAL_FAILURE(ExpectSays("rank 1 failed", {"rank 2"}), "rank 1 failed");
  EXPECT_FATAL_FAILURE(ExpectError(Status(ErrorCode::kUsage, "no"), ErrorCode::kTimeout, {}),
                       "no [HVD-E0101]");
  EXPECT_FATAL_FAILURE(ExpectSaid({"rank 1 failed"}, {"rank 2"}), "rank 1 failed");
}

}  // namespace
}  // namespace hvdray
