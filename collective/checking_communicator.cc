// SPDX-License-Identifier: Apache-2.0
// HVDRAY_CHECK_COLLECTIVES=1: calls that differ between ranks are told instead of run.
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

// What must be the same on all ranks. Counts of each rank go in as a digest; they themselves are
// exchanged where calls differ.
struct Call {
  uint8_t kind;
  uint8_t dtype;
  uint8_t op;
  uint8_t is_v;
  int32_t root;
  uint64_t count;
  uint64_t counts_digest;

  bool operator==(const Call&) const = default;
};

Call CallOf(const Operation& operation) {
  Call call{};
  call.kind = static_cast<uint8_t>(operation.kind);
  call.dtype = static_cast<uint8_t>(operation.dtype);
  call.op = static_cast<uint8_t>(operation.op);
  call.root = operation.root;
  call.count = operation.count;
  // FNV-1a. An all-to-all's counts are each rank's own.
  call.is_v = operation.recv_counts.empty() ? 0 : 1;
  if (operation.kind == Collective::kAllToAll) return call;
  call.counts_digest = 0xCBF29CE484222325;
  for (const size_t count : operation.recv_counts) {
    call.counts_digest = (call.counts_digest ^ count) * 0x100000001B3;
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
  return hvdray::Describe(operation);
}

}  // namespace

class CheckingCommunicator : public Communicator {
 public:
  explicit CheckingCommunicator(std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)) {}
  std::string_view backend() const override { return inner_->backend(); }
  int device() const override { return inner_->device(); }
  Communicator& HostSide() override { return inner_->HostSide(); }
  void Abort() override { inner_->Abort(); }
  void UseTable(const AlgorithmTable& table) override { inner_->UseTable(table); }
  Status Synchronize() override { return inner_->Synchronize(); }

 private:
  Status Execute(const Operation& operation) override {
    if (operation.kind != Collective::kSend && operation.kind != Collective::kRecv) {
      HVDRAY_RETURN_IF_ERROR(Compare(CallOf(operation), operation.recv_counts));
    }
    return inner_->Execute(operation);
  }

  Status ExecuteGroup(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) override {
    Operation whole{Collective::kAllReduce, nullptr, nullptr, 0, dtype, op};
    for (const Tensor& tensor : tensors) whole.count += tensor.count;
    HVDRAY_RETURN_IF_ERROR(Compare(CallOf(whole), {}));
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
    return {ErrorCode::kUsage,
            fmt::format("ranks differ: rank 0 calls {}, rank {} {}",
                        Describe(calls[0], counts_of(0)), rank, Describe(*other, counts_of(rank)))};
  }

  std::unique_ptr<Communicator> inner_;
};

std::unique_ptr<Communicator> MakeCheckingCommunicator(std::unique_ptr<Communicator> inner) {
  return std::make_unique<CheckingCommunicator>(std::move(inner));
}

}  // namespace hvdray
