#include "cluster/ssh/ssh_gate.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace hvdray {
namespace {

TEST(SshGateTest, NoMoreEnterThanThereIsRoomForAndTheRestInOrder) {
  SshGate gate(2);
  std::vector<int> entered;
  for (int i = 0; i < 5; ++i) gate.Enter("a", [&entered, i] { entered.push_back(i); });
  EXPECT_EQ(entered, (std::vector<int>{0, 1}));
  gate.Leave("a");
  EXPECT_EQ(entered, (std::vector<int>{0, 1, 2}));
  for (int i = 0; i < 4; ++i) gate.Leave("a");
  EXPECT_EQ(entered.size(), 5u);
  gate.Enter("a", [&entered] { entered.push_back(9); });
  EXPECT_EQ(entered.back(), 9) << "all have left";
}

TEST(SshGateTest, AddressesDoNotWaitForEachOther) {
  SshGate gate(1);
  int entered = 0;
  gate.Enter("a", [&] { ++entered; });
  gate.Enter("b", [&] { ++entered; });
  gate.Enter("a", [&] { ++entered; });
  EXPECT_EQ(entered, 2);
}

TEST(SshGateTest, WhoEntersMayLeaveAtOnce) {
  SshGate gate(1);
  int entered = 0;
  gate.Enter("a", [&] { ++entered; });
  for (int i = 0; i < 100; ++i) {
    gate.Enter("a", [&] {
      ++entered;
      gate.Leave("a");
    });
  }
  gate.Leave("a");
  EXPECT_EQ(entered, 101);
}

TEST(SshGateTest, LeavingWhereNobodyIsChangesNothing) {
  SshGate gate(1);
  gate.Leave("a");
  int entered = 0;
  gate.Enter("a", [&] { ++entered; });
  EXPECT_EQ(entered, 1);
}

TEST(SshBackoffTest, WaitsGrowToTwoSecondsAndSpread) {
  SshBackoff backoff(7);
  std::set<int64_t> seen;
  for (int tries = 1; tries <= 40; ++tries) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(backoff.Next(tries));
    EXPECT_GE(wait.count(), tries == 1 ? 50 : 100);
    EXPECT_LE(wait.count(), tries == 1 ? 150 : 3000);
    seen.insert(wait.count());
  }
  EXPECT_GT(seen.size(), 20u);
}

}  // namespace
}  // namespace hvdray
