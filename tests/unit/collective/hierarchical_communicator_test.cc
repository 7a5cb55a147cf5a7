// SPDX-License-Identifier: Apache-2.0
// Machines are groups of threads that share a segment; between them, TCP on loopback.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <latch>
#include <span>
#include <thread>
#include <vector>

#include "collective/backends.h"
#include "collective/mesh.h"
#include "tests/fakes/collective_suite.h"
#include "tests/fakes/rank_threads.h"

namespace hvdray {
namespace {

using namespace std::chrono_literals;
using Hosts = std::vector<std::vector<int>>;

const std::string kToken(ShmSegment::kTokenBytes, 't');

// Runs body(communicator) on a thread for each rank of `hosts`.
void OnHosts(const Hosts& hosts, const std::function<void(std::unique_ptr<Communicator>)>& body) {
  int size = 0;
  std::vector<UniqueFd> memories;
  for (const auto& host : hosts) {
    size += static_cast<int>(host.size());
    const std::vector<pid_t> pids(host.size(), ::getpid());
    memories.push_back(std::move(ShmSegment::Create(pids, kToken)).value());
  }
  OnRankThreads(size, 60s, [&](const CommunicatorOptions& options) {
    std::unique_ptr<Communicator> local;
    for (size_t host = 0; host < hosts.size(); ++host) {
      for (size_t place = 0; place < hosts[host].size(); ++place) {
        if (hosts[host][place] != options.rank) continue;
        auto segment = ShmSegment::Open(UniqueFd(::fcntl(memories[host].get(), F_DUPFD_CLOEXEC, 0)),
                                        static_cast<int>(place), kToken, options.timeout);
        ASSERT_TRUE(segment.ok()) << segment.status().ToString();
        (*segment)->NameRanks(hosts[host], size);
        local = hosts[host].size() == 1 ? MakeSingleCommunicator()
                                        : MakeShmCommunicator(std::move(*segment));
      }
    }
    Store store(options.rendezvous_host, options.rendezvous_port, options.scope, options.timeout);
    Result<std::unique_ptr<Mesh>> mesh = Mesh::Connect(options, store);
    ASSERT_TRUE(mesh.ok()) << mesh.status().ToString();
    body(MakeHierarchicalCommunicator(std::move(*mesh), std::move(local), hosts));
  });
}

class HierarchicalCommunicatorTest : public testing::TestWithParam<Hosts> {};

TEST_P(HierarchicalCommunicatorTest, EveryCollectiveEqualsItsReference) {
  // By leaders and in slices, with a rest.
  const std::vector<size_t> counts{0, 1, 7, 1000, 300001};
  OnHosts(GetParam(), [&](std::unique_ptr<Communicator> communicator) {
    const size_t used = communicator->size() <= 6 ? 5 : 4;
    for (const std::string& problem :
         CheckCollectives(*communicator, std::span(counts).first(used))) {
      ADD_FAILURE() << problem;
    }
  });
}

TEST_P(HierarchicalCommunicatorTest, EveryTypeAndOperationByLeadersAndInSlices) {
  OnHosts(GetParam(), [&](std::unique_ptr<Communicator> communicator) {
    for (const uint64_t slices : {uint64_t{0}, uint64_t{1} << 40}) {
      AlgorithmTable table;
      table.slices = slices;
      communicator->UseTable(table);
      for (const std::string& problem : CheckReductions(*communicator, 700)) {
        ADD_FAILURE() << problem;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Machines, HierarchicalCommunicatorTest,
                         testing::Values(Hosts{{0, 1}, {2, 3}}, Hosts{{0, 2}, {1, 3}},
                                         Hosts{{0}, {1, 2, 3}, {4}}, Hosts{{0, 1, 2}},
                                         Hosts{{0, 3}, {1, 2}, {4, 5}},
                                         Hosts{{0, 1, 2, 3}, {4, 5}, {6, 7, 8}}));

TEST(HierarchicalCommunicatorFaultTest, AnAbortElsewhereEndsAWaitInsideAMachine) {
  std::latch all_are_there(4);
  OnHosts({{0, 1}, {2, 3}}, [&](std::unique_ptr<Communicator> communicator) {
    all_are_there.arrive_and_wait();
    // Ranks 0 and 1 wait for each other, not for rank 3.
    std::vector<float> values(1000000);
    if (communicator->rank() == 3) {
      communicator->Abort();
    } else if (communicator->rank() == 0) {
      const Status status = communicator->Recv(values.data(), 1, DataType::kFloat32, 1);
      EXPECT_EQ(status.code(), ErrorCode::kAborted);
      EXPECT_NE(status.message().find("recv: rank"), std::string::npos) << status.message();
    } else {
      EXPECT_EQ(communicator->Barrier().code(), ErrorCode::kAborted);
    }
    EXPECT_EQ(communicator->Barrier().code(), ErrorCode::kAborted);
  });
}

}  // namespace
}  // namespace hvdray
