// SPDX-License-Identifier: Apache-2.0
// Chooses the backend that reaches all ranks, and has the ranks meet. The communicator of one rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collective/backends.h"
#include "collective/communicator.h"
#include "collective/mesh.h"
#include "collective/shm_meeting.h"
#include "collective/store.h"

namespace hvdray {
namespace {

class SingleCommunicator : public Communicator {
 public:
  SingleCommunicator() : Communicator(0, 1) {}
  std::string_view backend() const override { return "single"; }
  void Abort() override { is_ended_ = true; }
  void UseTable(const AlgorithmTable& /*table*/) override {}

 private:
  Status Execute(const Operation& operation) override {
    if (is_ended_) return {ErrorCode::kAborted, "rank 0 of 1 gave up"};
    const size_t bytes = BytesOf(operation, 0, 1).recv;
    if (operation.kind != Collective::kBroadcast && bytes > 0 && operation.send != operation.recv) {
      std::memcpy(operation.recv, operation.send, bytes);
    }
    return {};
  }

  std::atomic<bool> is_ended_{false};
};

// Meets all ranks and returns when they are connected.
Result<std::shared_ptr<Mesh>> ConnectMesh(const CommunicatorOptions& options, Store& store,
                                          const std::vector<int>& all) {
  HVDRAY_ASSIGN_OR_RETURN(std::shared_ptr<Mesh> mesh, Mesh::Connect(options, store));
  HVDRAY_RETURN_IF_ERROR(MakeNetworkCommunicator(mesh, all)->Barrier());
  // Everybody has read everybody's key once all are here; then the keys can go.
  HVDRAY_RETURN_IF_ERROR(store.Delete(std::to_string(options.rank)));
  return mesh;
}

Result<std::unique_ptr<Communicator>> MakeShm(const CommunicatorOptions& options,
                                              ShmMeeting& meeting, Store& store) {
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ShmSegment> segment, meeting.Share(store));
  return MakeShmCommunicator(std::move(segment), 1, options.operation_timeout);
}

Result<std::unique_ptr<Communicator>> MakeNccl(const CommunicatorOptions& options,
                                               std::shared_ptr<Mesh> mesh) {
#ifdef HVDRAY_HAS_NCCL
  return MakeNcclCommunicator(options, std::move(mesh));
#else
  (void)options;
  mesh.reset();
  return Status(ErrorCode::kNotSupported, "the backend nccl: built without NCCL",
                "build where the CUDA Toolkit and NCCL are found");
#endif
}

Result<std::unique_ptr<Communicator>> MakeUnchecked(const CommunicatorOptions& options) {
  const bool is_nccl = options.backend == Backend::kNccl;
  if (options.size == 1) return is_nccl ? MakeNccl(options, nullptr) : MakeSingleCommunicator();
  Store store(options.rendezvous_host, options.rendezvous_port, options.scope, options.timeout,
              options.check);
  std::vector<int> all(static_cast<size_t>(options.size));
  std::iota(all.begin(), all.end(), 0);
  if (is_nccl) {
    HVDRAY_ASSIGN_OR_RETURN(std::shared_ptr<Mesh> mesh, ConnectMesh(options, store, all));
    return MakeNccl(options, std::move(mesh));
  }
  if (options.backend == Backend::kGloo) {
    HVDRAY_ASSIGN_OR_RETURN(std::shared_ptr<Mesh> mesh, ConnectMesh(options, store, all));
    return MakeNetworkCommunicator(std::move(mesh), std::move(all));
  }
  HVDRAY_ASSIGN_OR_RETURN(ShmMeeting meeting,
                          ShmMeeting::Join(store, options.rank, options.size, options.timeout));
  const bool is_hierarchical = options.backend == Backend::kHierarchical;
  std::unique_ptr<Communicator> communicator;
  if (meeting.SharesAll() && !is_hierarchical) {
    HVDRAY_ASSIGN_OR_RETURN(communicator, MakeShm(options, meeting, store));
  } else if (options.backend == Backend::kShm) {
    const auto elsewhere = std::find_if(meeting.leaders().begin(), meeting.leaders().end(),
                                        [](int leader) { return leader != 0; });
    HVDRAY_RETURN_IF_ERROR(ShmMeeting::CheckSupported());
    return Status(ErrorCode::kNotSupported,
                  fmt::format("shared memory: ranks 0 and {} are not on one machine",
                              elsewhere - meeting.leaders().begin()),
                  "HVDRAY_COLLECTIVE=auto finds out what is possible");
  } else {
    std::vector<std::vector<int>> hosts = meeting.Hosts();
    std::unique_ptr<Communicator> local = MakeSingleCommunicator();
    if (meeting.MembersHere().size() > 1) {
      HVDRAY_ASSIGN_OR_RETURN(local, MakeShm(options, meeting, store));
    }
    HVDRAY_ASSIGN_OR_RETURN(std::shared_ptr<Mesh> mesh, ConnectMesh(options, store, all));
    communicator =
        hosts.size() == all.size() && !is_hierarchical
            ? MakeNetworkCommunicator(std::move(mesh), std::move(all))
            : MakeHierarchicalCommunicator(std::move(mesh), std::move(local), std::move(hosts));
  }
  HVDRAY_RETURN_IF_ERROR(meeting.Forget(store));
  return communicator;
}

// A request's head has room for a few hundred ranks; of more it gets a digest (FNV-1a).
std::string ScopeOf(std::span<const int> members) {
  constexpr size_t kMostNamed = 100;
  if (members.size() <= kMostNamed) return fmt::format("_{}", fmt::join(members, "-"));
  uint64_t digest = 0xCBF29CE484222325;
  for (const int member : members) {
    digest = (digest ^ static_cast<uint64_t>(member)) * 0x100000001B3;
  }
  return fmt::format("_{}-of-{}-{:016x}", members.front(), members.size(), digest);
}

}  // namespace

std::unique_ptr<Communicator> MakeSingleCommunicator() {
  return std::make_unique<SingleCommunicator>();
}

Result<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Status(ErrorCode::kUsage,
                  fmt::format("no rank {} of {} ranks", options.rank, options.size));
  }
  Result<std::unique_ptr<Communicator>> made = MakeUnchecked(options);
  if (made.ok() && options.size > 1 && options.backend != Backend::kNccl) {
    AlgorithmTable table = options.table;
    Status shared = (*made)->Broadcast(&table, sizeof table, DataType::kUint8, 0);
    if (shared.ok()) {
      (*made)->UseTable(table);
    } else {
      made = std::move(shared);
    }
  }
  if (!made.ok()) {
    return std::move(made).status().WithContext(
        fmt::format("rank {} of {} could not join", options.rank, options.size));
  }
  if (!options.is_checking) return made;
  return MakeCheckingCommunicator(std::move(*made));
}

Result<std::unique_ptr<Communicator>> MakeSubCommunicator(const CommunicatorOptions& options,
                                                          std::span<const int> members) {
  std::vector<int> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  const auto position = std::find(members.begin(), members.end(), options.rank);
  if (position == members.end() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() || sorted.front() < 0 ||
      sorted.back() >= options.size) {
    return Status(ErrorCode::kUsage,
                  fmt::format("[{}] are not distinct ranks of {} with rank {} among them",
                              fmt::join(members, ", "), options.size, options.rank));
  }
  CommunicatorOptions sub = options;
  sub.rank = static_cast<int>(position - members.begin());
  sub.size = static_cast<int>(members.size());
  sub.scope += ScopeOf(members);
  return MakeCommunicator(sub);
}

}  // namespace hvdray
