// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <list>

#include "launcher/engine/host_check.h"

namespace hvdray {
namespace {

using Wanted = std::vector<std::string>;

class CheckNicsTest : public testing::Test {
 protected:
  /// One interface with an address; an empty name: loopback only.
  void AddHost(const std::string& name, const std::string& nic, const std::string& address = "") {
    std::vector<wire::InterfaceFacts>& faces = faces_.emplace_back();
    wire::InterfaceFacts lo;
    lo.name = "lo";
    lo.addresses = {{"127.0.0.1", 8}};
    lo.is_up = lo.is_loopback = true;
    faces.push_back(lo);
    if (!nic.empty()) {
      wire::InterfaceFacts face;
      face.name = nic;
      face.addresses = {{address, 24}};
      face.is_up = true;
      faces.push_back(face);
    }
    hosts_.push_back({name, faces});
  }
  CheckedNics Select(const Wanted& wanted = {}, size_t planned = 0) const {
    return SelectNicsOfEach(hosts_, planned == 0 ? hosts_.size() : planned, wanted,
                            HostSpread::kManyMachines);
  }

  std::list<std::vector<wire::InterfaceFacts>> faces_;
  std::vector<HostNics> hosts_;
};

TEST_F(CheckNicsTest, HostsThatAreWellGetWhatAJobWouldGiveThem) {
  AddHost("a", "eth0", "10.1.0.1");
  AddHost("b", "ens5", "10.1.0.2");
  const CheckedNics nics = Select();
  const auto job = SelectNics(hosts_, {}, HostSpread::kManyMachines);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(*nics.choices[0], (*job)[0]);
  EXPECT_EQ(*nics.choices[1], (*job)[1]);
  EXPECT_TRUE(nics.all.ok());
}

TEST_F(CheckNicsTest, OneHostWithoutAnInterfaceDoesNotHideTheOthers) {
  AddHost("a", "eth0", "10.1.0.1");
  AddHost("b", "");
  AddHost("c", "eth0", "10.1.0.3");
  const CheckedNics nics = Select();
  EXPECT_TRUE(nics.choices[0].has_value());
  EXPECT_FALSE(nics.choices[1].has_value());
  EXPECT_EQ(nics.why[1].code(), ErrorCode::kNoUsableInterface);
  EXPECT_NE(nics.why[1].message().find("host b"), std::string::npos);
  EXPECT_EQ(nics.choices[2]->address, "10.1.0.3");
}

TEST_F(CheckNicsTest, AWantedNameThatOnlyOneHostLacksIsThatHostsFault) {
  AddHost("a", "eth0", "10.1.0.1");
  AddHost("b", "ens5", "10.1.0.2");
  AddHost("c", "wlan0", "10.1.0.3");
  const CheckedNics nics = Select({"eth0", "ens5"});
  EXPECT_EQ(nics.choices[0]->gloo_interface, "eth0");
  EXPECT_EQ(nics.choices[1]->gloo_interface, "ens5");
  EXPECT_FALSE(nics.choices[2].has_value());
  EXPECT_FALSE(nics.why[2].ok());
  EXPECT_TRUE(nics.all.ok());
}

TEST_F(CheckNicsTest, AWantedNameThatNoHostHasIsNoHostsFaultAlone) {
  AddHost("a", "eth0", "10.1.0.1");
  AddHost("b", "eth0", "10.1.0.2");
  const CheckedNics both = Select({"eth0", "eth7"});
  EXPECT_EQ(both.all.code(), ErrorCode::kNoUsableInterface);
  EXPECT_TRUE(both.why[0].ok());
  const CheckedNics none = Select({"eth7"});
  EXPECT_FALSE(none.why[0].ok());
  EXPECT_FALSE(none.why[1].ok());
}

TEST_F(CheckNicsTest, TheLastOneLeftOfManyDoesNotFallBackToLoopback) {
  AddHost("a", "");
  EXPECT_FALSE(Select({}, 2).choices[0].has_value());
  EXPECT_EQ(Select({}, 1).choices[0]->gloo_interface, "lo");
}

TEST_F(CheckNicsTest, NoHostLeftIsNoFault) { EXPECT_TRUE(Select({}, 2).all.ok()); }

}  // namespace
}  // namespace hvdray
