// SPDX-License-Identifier: Apache-2.0
// Who shares memory, by ranks that are threads of one process; deaths of ranks that meet are in
// tests/integration/collective_test.py.
#include "collective/shm_meeting.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>

#include "collective/communicator.h"
#include "tests/fakes/rank_threads.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;

// As a container's filter or an old kernel. For this thread and those that it starts.
void ForbidPidfds() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

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
    ForbidPidfds();
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
    if (options.rank == 1) ForbidPidfds();
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
