// SPDX-License-Identifier: Apache-2.0
// HVDRAY_CHECK_COLLECTIVES=1: calls that differ between ranks are reported instead of run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "collective/backends.h"

namespace hvdray {
namespace {

// What must be the same on all ranks. Counts of each rank, or of each tensor of a group, go in as a
// digest; those of ranks are exchanged where calls differ.
struct Call {
  uint8_t kind;
  uint8_t dtype;
  uint8_t op;
  uint8_t is_v;
  int32_t root;
  uint64_t count;
  uint64_t tensors;  // 0: not a group
  uint64_t counts_digest;

  bool operator==(const Call&) const = default;
};

// FNV-1a.
constexpr uint64_t kNoCounts = 0xCBF29CE484222325;
uint64_t Digest(uint64_t before, size_t count) { return (before ^ count) * 0x100000001B3; }

Call CallOf(const Operation& operation) {
  Call call{};
  call.kind = static_cast<uint8_t>(operation.kind);
  call.dtype = static_cast<uint8_t>(operation.dtype);
  call.op = static_cast<uint8_t>(operation.op);
  call.root = operation.root;
  call.count = operation.count;
  // An all-to-all's counts are each rank's own.
  call.is_v = operation.recv_counts.empty() ? 0 : 1;
  if (operation.kind == Collective::kAllToAll) return call;
  call.counts_digest = kNoCounts;
  for (const size_t count : operation.recv_counts) {
    call.counts_digest = Digest(call.counts_digest, count);
  }
  return call;
}

Call CallOf(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) {
  Operation whole{Collective::kAllReduce, nullptr, nullptr, 0, dtype, op};
  for (const Tensor& tensor : tensors) whole.count += tensor.count;
  Call call = CallOf(whole);
  call.tensors = tensors.size();
  for (const Tensor& tensor : tensors) {
    call.counts_digest = Digest(call.counts_digest, tensor.count);
  }
  return call;
}

std::string Describe(const Call& call, std::span<const size_t> counts) {
  Operation operation;
  operation.kind = static_cast<Collective>(call.kind);
  operation.dtype = static_cast<DataType>(call.dtype);
  operation.op = static_cast<ReduceOp>(call.op);
  operation.root = call.root;
  operation.count = call.count;
  if (call.is_v != 0) operation.recv_counts = counts;
  const std::string text = hvdray::Describe(operation);
  return call.tensors == 0 ? text : fmt::format("{} in {} tensors", text, call.tensors);
}

Status Differ(int one, const std::string& does, int other, const std::string& other_does) {
  return {ErrorCode::kUsage,
          fmt::format("ranks differ: rank {} {}, rank {} {}", one, does, other, other_does)};
}

}  // namespace

class CheckingCommunicator : public Communicator {
 public:
  explicit CheckingCommunicator(std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)) {}
  std::string_view backend() const override { return inner_->backend(); }
  int device() const override { return inner_->device(); }
  int network_size() const override { return inner_->network_size(); }
  Communicator& HostSide() override { return inner_->HostSide(); }
  void EndMeeting() override { inner_->EndMeeting(); }
  void Abort() override { inner_->Abort(); }
  void UseTable(const AlgorithmTable& table) override { inner_->UseTable(table); }
  Status Synchronize() override { return inner_->Synchronize(); }

 private:
  Status Execute(const Operation& operation) override {
    if (operation.kind == Collective::kSend || operation.kind == Collective::kRecv) {
      HVDRAY_RETURN_IF_ERROR(ComparePair(operation));
    } else {
      HVDRAY_RETURN_IF_ERROR(Compare(CallOf(operation), operation.recv_counts));
    }
    if (operation.kind == Collective::kAllToAll && !operation.send_counts.empty()) {
      HVDRAY_RETURN_IF_ERROR(CompareCounts(operation));
    }
    return inner_->Execute(operation);
  }

  Status ExecuteGroup(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) override {
    HVDRAY_RETURN_IF_ERROR(Compare(CallOf(tensors, dtype, op), {}));
    return inner_->ExecuteGroup(tensors, dtype, op);
  }

  Status Compare(const Call& mine, std::span<const size_t> my_counts) {
    std::vector<Call> calls(static_cast<size_t>(size()));
    HVDRAY_RETURN_IF_ERROR(
        inner_->HostSide().AllGather(&mine, calls.data(), sizeof mine, DataType::kUint8));
    const auto other = std::find_if(calls.begin(), calls.end(),
                                    [&calls](const Call& call) { return call != calls[0]; });
    if (other == calls.end()) return {};
    const auto ranks = static_cast<size_t>(size());
    std::vector<size_t> row(ranks);
    std::copy(my_counts.begin(), my_counts.end(), row.begin());
    std::vector<size_t> counts(ranks * ranks);
    HVDRAY_RETURN_IF_ERROR(inner_->HostSide().AllGather(row.data(), counts.data(),
                                                        ranks * sizeof(size_t), DataType::kUint8));
    const auto counts_of = [&](size_t rank) {
      return std::span(counts).subspan(rank * ranks, ranks);
    };
    const auto rank = static_cast<size_t>(other - calls.begin());
    // The same words on all ranks, which have all got the same calls.
    const std::string first = Describe(calls[0], counts_of(0));
    std::string second = Describe(*other, counts_of(rank));
    if (second == first) second += " of other sizes";
    return Differ(0, "calls " + first, static_cast<int>(rank), second);
  }

  // What each rank sends to each, and what each receives from each.
  Status CompareCounts(const Operation& operation) {
    const auto ranks = static_cast<size_t>(size());
    std::vector<size_t> row(operation.send_counts.begin(), operation.send_counts.end());
    row.insert(row.end(), operation.recv_counts.begin(), operation.recv_counts.end());
    std::vector<size_t> rows(ranks * row.size());
    HVDRAY_RETURN_IF_ERROR(inner_->HostSide().AllGather(
        row.data(), rows.data(), row.size() * sizeof(size_t), DataType::kUint8));
    for (size_t from = 0; from < ranks; ++from) {
      for (size_t to = 0; to < ranks; ++to) {
        const size_t sent = rows[from * row.size() + to];
        const size_t received = rows[to * row.size() + ranks + from];
        if (sent == received) continue;
        return Differ(static_cast<int>(from),
                      fmt::format("calls all_to_all and sends rank {} {} {}", to, sent,
                                  Name(operation.dtype)),
                      static_cast<int>(to), fmt::format("receives {}", received));
      }
    }
    return {};
  }

  // The two tell each other.
  Status ComparePair(const Operation& operation) {
    const bool is_sender = operation.kind == Collective::kSend;
    const int peer = operation.root;
    const Call mine = CallOf(operation);
    Call theirs{};
    Communicator& host = inner_->HostSide();
    for (const bool is_mine : {is_sender, !is_sender}) {
      HVDRAY_RETURN_IF_ERROR(is_mine ? host.Send(&mine, sizeof mine, DataType::kUint8, peer)
                                     : host.Recv(&theirs, sizeof theirs, DataType::kUint8, peer));
    }
    if (mine.count == theirs.count && mine.dtype == theirs.dtype) return {};
    const auto what = [](const Call& call) {
      return fmt::format("{} {}", call.count, Name(static_cast<DataType>(call.dtype)));
    };
    const Call& sent = is_sender ? mine : theirs;
    const Call& received = is_sender ? theirs : mine;
    return Differ(is_sender ? rank() : peer, "sends " + what(sent), is_sender ? peer : rank(),
                  "receives " + what(received));
  }

  std::unique_ptr<Communicator> inner_;
};

std::unique_ptr<Communicator> MakeCheckingCommunicator(std::unique_ptr<Communicator> inner) {
  return std::make_unique<CheckingCommunicator>(std::move(inner));
}

}  // namespace hvdray
