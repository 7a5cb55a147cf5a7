// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "cluster/ssh/ssh_connect.h"

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

}  // namespace
}  // namespace hvdray
