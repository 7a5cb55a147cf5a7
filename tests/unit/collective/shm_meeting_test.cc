// SPDX-License-Identifier: Apache-2.0
// Who shares memory, by ranks that are threads of one process; deaths of ranks that meet are in
// tests/integration/collective_test.py.
#include "collective/shm_meeting.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>

#include "collective/communicator.h"
#include "tests/fakes/rank_threads.h"
#include "tests/fakes/refused_call.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

TEST(ShmMeetingTest, RanksOfOneProcessShareMemory) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    const auto made = MakeCommunicator(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_EQ((*made)->backend(), "shm");
    EXPECT_TRUE((*made)->Barrier().ok());
  });
}

TEST(ShmMeetingTest, RanksThatCannotSeeOthersDieUseTheNetwork) {
  OnRankThreads(2, 60s, [](CommunicatorOptions options) {
    ASSERT_TRUE(RefuseCall(SYS_pidfd_open, ENOSYS));
    auto made = MakeCommunicator(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_EQ((*made)->backend(), "gloo");
    EXPECT_TRUE((*made)->Barrier().ok());
    options.backend = Backend::kShm;
    options.scope = "again";
    made = MakeCommunicator(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), ErrorCode::kNotSupported);
    EXPECT_NE(made.status().message().find("pidfd_open"), std::string::npos);
  });
}

TEST(ShmMeetingTest, RanksWithoutPidfdsBesideOthersAreMachinesOfTheirOwn) {
  OnRankThreads(3, 60s, [](const CommunicatorOptions& options) {
    ASSERT_TRUE(options.rank != 1 || RefuseCall(SYS_pidfd_open, ENOSYS));
    const auto made = MakeCommunicator(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_EQ((*made)->backend(), "hierarchical");
    EXPECT_EQ((*made)->network_size(), 2);
    EXPECT_TRUE((*made)->Barrier().ok());
  });
}

TEST(ShmMeetingTest, ManyMembersHaveAScopeThatARequestCanCarry) {
  std::vector<int> members(1500);
  for (size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int>(i);
  OnRankThreads(1, 200ms, [&](CommunicatorOptions options) {
    options.size = 1500;
    // The others don't come.
    const auto made = MakeSubCommunicator(options, members);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), ErrorCode::kDeadlineExceeded) << made.status().ToString();
  });
}

}  // namespace
}  // namespace hvdray
