// SPDX-License-Identifier: Apache-2.0
// Chooses the backend that reaches all ranks, and has the ranks meet. The communicator of one rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "collective/backends.h"
#include "collective/communicator.h"
#include "collective/shm_meeting.h"
#include "collective/store.h"

namespace hvdray {
namespace {

class SingleCommunicator : public Communicator {
 public:
  SingleCommunicator() : Communicator(0, 1) {}
  std::string_view backend() const override { return "single"; }
  void Abort() override {}

 private:
  Status Execute(const Operation& operation) override {
    const size_t bytes = BytesOf(operation, 0, 1).recv;
    if (operation.kind != Collective::kBroadcast && bytes > 0 && operation.send != operation.recv) {
      std::memcpy(operation.recv, operation.send, bytes);
    }
    return {};
  }
};

Result<std::unique_ptr<Communicator>> MakeUnchecked(const CommunicatorOptions& options) {
  if (options.size == 1) return std::unique_ptr<Communicator>(new SingleCommunicator());
  Store store(options.rendezvous_host, options.rendezvous_port, options.scope);
  if (options.backend == Backend::kGloo) return MakeGlooCommunicator(options, store);
  HVDRAY_ASSIGN_OR_RETURN(ShmMeeting meeting,
                          ShmMeeting::Join(store, options.rank, options.size, options.timeout));
  std::unique_ptr<Communicator> communicator;
  if (meeting.SharesAll()) {
    HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ShmSegment> segment, meeting.Share());
    communicator = MakeShmCommunicator(std::move(segment));
  } else if (options.backend == Backend::kAuto) {
    HVDRAY_ASSIGN_OR_RETURN(communicator, MakeGlooCommunicator(options, store));
  } else {
    const auto elsewhere = std::find_if(meeting.leaders().begin(), meeting.leaders().end(),
                                        [](int leader) { return leader != 0; });
    return Status(ErrorCode::kNotSupported,
                  fmt::format("shared memory: ranks 0 and {} are not on one machine",
                              elsewhere - meeting.leaders().begin()),
                  "HVDRAY_COLLECTIVE=auto finds out what is possible");
  }
  HVDRAY_RETURN_IF_ERROR(meeting.Forget(store));
  return communicator;
}

}  // namespace

Result<std::unique_ptr<Communicator>> MakeCommunicator(const CommunicatorOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Status(ErrorCode::kUsage,
                  fmt::format("no rank {} of {} ranks", options.rank, options.size));
  }
  Result<std::unique_ptr<Communicator>> made = MakeUnchecked(options);
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
  sub.scope += fmt::format("_{}", fmt::join(members, "-"));
  return MakeCommunicator(sub);
}

}  // namespace hvdray
