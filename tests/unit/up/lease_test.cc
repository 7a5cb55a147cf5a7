// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/lease.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(LeaseTest, ItEndsAfterItsLengthInWholeSeconds) {
  EXPECT_EQ(LeaseEnd(1000, hours(8)), 1000 + 8 * 3600);
  EXPECT_EQ(LeaseEnd(1000, milliseconds(1500)), 1002);
  EXPECT_EQ(LeaseEnd(1000, milliseconds(1)), 1001);
}

TEST(LeaseTest, AnEndIsReadAsItIsWritten) {
  EXPECT_EQ(ParseLeaseEnd(FormatLeaseEnd(1764072000)), 1764072000);
  for (const char* text : {"", "0", "-5", "soon", "12 stay", "1e9", "999999999999999", " 5"}) {
    EXPECT_FALSE(ParseLeaseEnd(text).has_value()) << text;
  }
}

TEST(LeaseTest, PeopleReadItsEndInUtc) {
  EXPECT_EQ(LeaseText(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(LeaseText(1709210096), "2024-02-29T12:34:56Z");
  EXPECT_EQ(LeaseText(*ParseLeaseEnd("253402300799")), "9999-12-31T23:59:59Z");
}

}  // namespace
}  // namespace hvdray
