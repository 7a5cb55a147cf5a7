// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/collective_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

namespace hvdray {
namespace {

bool IsInteger(DataType dtype) {
  return dtype <= DataType::kUint8;  // the first five
}

bool IsBitwise(ReduceOp op) { return op >= ReduceOp::kBitAnd; }

template <typename T>
void Put(void* base, size_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
T Take(const void* base, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

// Exact in every type, also summed or multiplied over nine ranks (but int8 then wraps).
double Input(ReduceOp op, int rank, size_t index) {
  const size_t mixed = static_cast<size_t>(rank) * 7 + index * 3;
  return op == ReduceOp::kProduct ? 1.0 + static_cast<double>(mixed % 2)
                                  : static_cast<double>(mixed % 6) + (mixed % 3 == 0 ? 1 : 0);
}

double Expected(ReduceOp op, DataType dtype, int ranks, size_t index) {
  double result = Input(op, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = Input(op, rank, index);
    const auto a = static_cast<int64_t>(result);
    const auto b = static_cast<int64_t>(next);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
      case ReduceOp::kProduct:
        result *= next;
        break;
      case ReduceOp::kBitAnd:
        result = static_cast<double>(a & b);
        break;
      case ReduceOp::kBitOr:
        result = static_cast<double>(a | b);
        break;
      case ReduceOp::kBitXor:
        result = static_cast<double>(a ^ b);
        break;
    }
  }
  if (op == ReduceOp::kAverage) result /= ranks;
  if (IsInteger(dtype)) result = std::trunc(result);
  // Through the type itself, which wraps and rounds.
  int64_t element = 0;
  StoreNumber(&element, 0, dtype, result);
  return LoadNumber(&element, 0, dtype);
}

// Memory with a guard before it and behind it.
class Buffer {
 public:
  Buffer(const SuiteMemory& memory, size_t bytes)
      : front_(memory.front),
        bytes_(bytes),
        memory_(memory.allocate(memory.front + bytes + kGuard)) {
    std::memset(memory_.get(), kFiller, front_ + bytes_ + kGuard);
  }
  char* data() { return memory_.get() + front_; }
  bool IsIntact() const {
    const char* end = memory_.get() + front_ + bytes_;
    const auto is_filler = [](char c) { return c == kFiller; };
    return std::all_of(memory_.get(), memory_.get() + front_, is_filler) &&
           std::all_of(end, end + kGuard, is_filler);
  }

 private:
  static constexpr size_t kGuard = 16;
  static constexpr char kFiller = 0x5A;
  size_t front_;
  size_t bytes_;
  std::shared_ptr<char> memory_;
};

class Suite {
 public:
  Suite(Communicator& communicator, std::span<const size_t> counts, SuiteMemory memory)
      : communicator_(communicator),
        counts_(counts.begin(), counts.end()),
        memory_(std::move(memory)),
        is_nccl_(communicator.backend() == "nccl") {}

  std::vector<std::string> Run() {
    for (const DataType dtype : kDataTypes) {
      for (const ReduceOp op : kReduceOps) {
        if (IsBitwise(op) && !IsInteger(dtype)) {
          Refuse(dtype, op, ErrorCode::kUsage);
          continue;
        }
        if (is_nccl_ && (IsBitwise(op) || dtype == DataType::kInt16)) {
          Refuse(dtype, op, ErrorCode::kNotSupported);
          continue;
        }
        AllReduce(301, dtype, op, /*in_place=*/false);
      }
    }
    for (const size_t count : counts_) {
      for (const bool in_place : {false, true}) {
        AllReduce(count, DataType::kFloat32, ReduceOp::kSum, in_place);
        AllReduce(count, DataType::kFloat16, ReduceOp::kAverage, in_place);
        ReduceScatter(count, DataType::kFloat32, in_place);
        AllGather(count, DataType::kInt16, in_place);
        AllGatherV(count, DataType::kInt32, in_place);
        AllToAll(count, DataType::kFloat64, in_place);
        Rooted(count, DataType::kBfloat16, in_place);
      }
      AllToAllV(count, DataType::kUint8);
      SendAndRecv(count, DataType::kInt64);
      Expect(communicator_.Barrier(), "barrier");
    }
    Group();
    Special();
    return problems_;
  }

  std::vector<std::string> RunReductions(size_t bytes) {
    for (const DataType dtype : kDataTypes) {
      const size_t count = bytes / SizeOf(dtype) + 1;
      for (const ReduceOp op : kReduceOps) {
        if (IsBitwise(op) && !IsInteger(dtype)) continue;
        AllReduce(count, dtype, op, /*in_place=*/true);
        ReduceScatter(count, dtype, /*in_place=*/false, op);
        Reduce(count, dtype, /*in_place=*/false, op, size() - 1);
      }
    }
    return problems_;
  }

 private:
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  size_t ranks() const { return static_cast<size_t>(communicator_.size()); }

  Buffer Allocate(size_t count, DataType dtype) const { return {memory_, count * SizeOf(dtype)}; }

  bool Expect(const Status& status, const std::string& what) {
    if (!status.ok()) problems_.push_back(fmt::format("{}: {}", what, status.ToString()));
    return status.ok();
  }

  void Fail(const std::string& what) {
    if (problems_.size() < 20) problems_.push_back(fmt::format("rank {}: {}", rank(), what));
  }

  // got[i] of `count` elements against expected(i).
  template <typename Function>
  void Compare(Buffer& got, size_t skip, size_t count, DataType dtype, const std::string& what,
               const Function& expected) {
    if (!got.IsIntact()) Fail(what + ": wrote beyond its buffer");
    for (size_t i = 0; i < count; ++i) {
      const double value = LoadNumber(got.data(), skip + i, dtype);
      if (value == expected(i)) continue;
      Fail(fmt::format("{}: element {} of {} is {}, not {}", what, i, count, value, expected(i)));
      return;
    }
  }

  void FillInput(Buffer& buffer, size_t skip, size_t count, DataType dtype, ReduceOp op, int rank) {
    for (size_t i = 0; i < count; ++i) {
      StoreNumber(buffer.data(), skip + i, dtype, Input(op, rank, i));
    }
  }

  void AllReduce(size_t count, DataType dtype, ReduceOp op, bool in_place) {
    const std::string what = fmt::format("all_reduce of {} {} ({}){}", count, Name(dtype), Name(op),
                                         in_place ? " in place" : "");
    Buffer send = Allocate(count, dtype);
    Buffer recv = Allocate(count, dtype);
    FillInput(in_place ? recv : send, 0, count, dtype, op, rank());
    const void* from = in_place ? recv.data() : send.data();
    if (!Expect(communicator_.AllReduce(from, recv.data(), count, dtype, op), what)) return;
    Compare(recv, 0, count, dtype, what, [&](size_t i) { return Expected(op, dtype, size(), i); });
    if (!in_place) {
      Compare(send, 0, count, dtype, what + " (input)",
              [&](size_t i) { return Input(op, rank(), i); });
    }
  }

  void Refuse(DataType dtype, ReduceOp op, ErrorCode code) {
    double value = 0;
    const Status status = communicator_.AllReduce(&value, &value, 1, dtype, op);
    if (status.code() == code) return;
    Fail(fmt::format("{} of {}: not refused, but {}", Name(op), Name(dtype), status.ToString()));
  }

  void ReduceScatter(size_t count, DataType dtype, bool in_place, ReduceOp op = ReduceOp::kSum) {
    const std::string what =
        fmt::format("reduce_scatter of {} {} ({})", count, Name(dtype), Name(op));
    Buffer send = Allocate(count * ranks(), dtype);
    Buffer recv = Allocate(count, dtype);
    FillInput(send, 0, count * ranks(), dtype, op, rank());
    const size_t first = static_cast<size_t>(rank()) * count;
    char* into = in_place ? send.data() + first * SizeOf(dtype) : recv.data();
    if (!Expect(communicator_.ReduceScatter(send.data(), into, count, dtype, op), what)) return;
    Compare(in_place ? send : recv, in_place ? first : 0, count, dtype, what,
            [&](size_t i) { return Expected(op, dtype, size(), first + i); });
  }

  // What rank `from` has for rank `to` at i; small enough for all types.
  static double Letter(size_t from, size_t to, size_t i) {
    return static_cast<double>((from * 5 + to * 3 + i) % 100);
  }

  void AllGather(size_t count, DataType dtype, bool in_place) {
    std::vector<size_t> counts(ranks(), count);
    Gathered(counts, dtype, in_place, /*is_v=*/false);
  }

  void AllGatherV(size_t count, DataType dtype, bool in_place) {
    std::vector<size_t> counts;
    for (size_t i = 0; i < ranks(); ++i) counts.push_back(count * (i % 3) + i);
    Gathered(counts, dtype, in_place, /*is_v=*/true);
  }

  void Gathered(const std::vector<size_t>& counts, DataType dtype, bool in_place, bool is_v) {
    const std::string what = fmt::format("all_gather of {}", counts.back());
    const auto me = static_cast<size_t>(rank());
    const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
    const size_t first = std::accumulate(counts.begin(), counts.begin() + rank(), size_t{0});
    Buffer send = Allocate(counts[me], dtype);
    Buffer recv = Allocate(total, dtype);
    for (size_t i = 0; i < counts[me]; ++i) {
      StoreNumber(in_place ? recv.data() : send.data(), in_place ? first + i : i, dtype,
                  Letter(me, 0, i));
    }
    const char* from = in_place ? recv.data() + first * SizeOf(dtype) : send.data();
    const Status status = is_v ? communicator_.AllGatherV(from, recv.data(), counts, dtype)
                               : communicator_.AllGather(from, recv.data(), counts[0], dtype);
    if (!Expect(status, what)) return;
    size_t place = 0;
    for (size_t peer = 0; peer < ranks(); ++peer) {
      Compare(recv, place, counts[peer], dtype, what, [&](size_t i) { return Letter(peer, 0, i); });
      place += counts[peer];
    }
  }

  void AllToAll(size_t count, DataType dtype, bool in_place) {
    const std::string what = fmt::format("all_to_all of {}{}", count, in_place ? " in place" : "");
    const auto me = static_cast<size_t>(rank());
    Buffer send = Allocate(count * ranks(), dtype);
    Buffer recv = Allocate(count * ranks(), dtype);
    for (size_t peer = 0; peer < ranks(); ++peer) {
      for (size_t i = 0; i < count; ++i) {
        StoreNumber((in_place ? recv : send).data(), peer * count + i, dtype, Letter(me, peer, i));
      }
    }
    const char* from = in_place ? recv.data() : send.data();
    if (!Expect(communicator_.AllToAll(from, recv.data(), count, dtype), what)) return;
    for (size_t peer = 0; peer < ranks(); ++peer) {
      Compare(recv, peer * count, count, dtype, what,
              [&](size_t i) { return Letter(peer, me, i); });
    }
  }

  void AllToAllV(size_t count, DataType dtype) {
    const std::string what = fmt::format("all_to_all_v of {}", count);
    const auto me = static_cast<size_t>(rank());
    const auto share = [&](size_t from, size_t to) { return count * ((from + 2 * to) % 3) + to; };
    std::vector<size_t> send_counts;
    std::vector<size_t> recv_counts;
    for (size_t peer = 0; peer < ranks(); ++peer) {
      send_counts.push_back(share(me, peer));
      recv_counts.push_back(share(peer, me));
    }
    const size_t sent = std::accumulate(send_counts.begin(), send_counts.end(), size_t{0});
    const size_t got = std::accumulate(recv_counts.begin(), recv_counts.end(), size_t{0});
    Buffer send = Allocate(sent, dtype);
    Buffer recv = Allocate(got, dtype);
    size_t place = 0;
    for (size_t peer = 0; peer < ranks(); ++peer) {
      for (size_t i = 0; i < send_counts[peer]; ++i) {
        StoreNumber(send.data(), place + i, dtype, Letter(me, peer, i));
      }
      place += send_counts[peer];
    }
    if (!Expect(communicator_.AllToAllV(send.data(), send_counts, recv.data(), recv_counts, dtype),
                what)) {
      return;
    }
    place = 0;
    for (size_t peer = 0; peer < ranks(); ++peer) {
      Compare(recv, place, recv_counts[peer], dtype, what,
              [&](size_t i) { return Letter(peer, me, i); });
      place += recv_counts[peer];
    }
  }

  // Broadcast, reduce, gather and scatter, with each rank as the root.
  void Rooted(size_t count, DataType dtype, bool in_place) {
    const auto me = static_cast<size_t>(rank());
    for (int root = 0; root < size(); ++root) {
      const bool is_root = root == rank();
      const auto at = static_cast<size_t>(root);
      const std::string suffix = fmt::format(" of {} from {}", count, root);

      Buffer buffer = Allocate(count, dtype);
      for (size_t i = 0; i < count; ++i) {
        StoreNumber(buffer.data(), i, dtype, is_root ? Letter(at, 1, i) : 0);
      }
      if (Expect(communicator_.Broadcast(buffer.data(), count, dtype, root),
                 "broadcast" + suffix)) {
        Compare(buffer, 0, count, dtype, "broadcast" + suffix,
                [&](size_t i) { return Letter(at, 1, i); });
      }

      const bool is_same = in_place && is_root;
      Reduce(count, dtype, in_place, ReduceOp::kMax, root);

      Buffer all = Allocate(count * ranks(), dtype);
      char* own = all.data() + me * count * SizeOf(dtype);
      Buffer mine = Allocate(count, dtype);
      char* part = is_same ? own : mine.data();
      for (size_t i = 0; i < count; ++i) StoreNumber(part, i, dtype, Letter(me, 2, i));
      if (Expect(communicator_.Gather(part, is_root ? all.data() : nullptr, count, dtype, root),
                 "gather" + suffix) &&
          is_root) {
        for (size_t peer = 0; peer < ranks(); ++peer) {
          Compare(all, peer * count, count, dtype, "gather" + suffix,
                  [&](size_t i) { return Letter(peer, 2, i); });
        }
      }
      // And back: what was gathered is what each has sent.
      Buffer back = Allocate(count, dtype);
      char* into = is_same ? own : back.data();
      if (Expect(communicator_.Scatter(is_root ? all.data() : nullptr, into, count, dtype, root),
                 "scatter" + suffix)) {
        Compare(is_same ? all : back, is_same ? me * count : 0, count, dtype, "scatter" + suffix,
                [&](size_t i) { return Letter(me, 2, i); });
      }
    }
  }

  void Reduce(size_t count, DataType dtype, bool in_place, ReduceOp op, int root) {
    const std::string what =
        fmt::format("reduce of {} {} ({}) to {}", count, Name(dtype), Name(op), root);
    const bool is_root = root == rank();
    Buffer send = Allocate(count, dtype);
    Buffer recv = Allocate(count, dtype);
    const bool is_same = in_place && is_root;
    FillInput(is_same ? recv : send, 0, count, dtype, op, rank());
    const char* from = is_same ? recv.data() : send.data();
    char* to = is_root ? recv.data() : nullptr;
    if (!Expect(communicator_.Reduce(from, to, count, dtype, op, root), what) || !is_root) return;
    Compare(recv, 0, count, dtype, what, [&](size_t i) { return Expected(op, dtype, size(), i); });
  }

  // A ring in both directions; even ranks send first.
  void SendAndRecv(size_t count, DataType dtype) {
    if (size() == 1) return;
    const std::string what = fmt::format("send and recv of {}", count);
    for (const int step : {1, size() - 1}) {
      const int next = (rank() + step) % size();
      const int previous = (rank() + size() - step) % size();
      Buffer send = Allocate(count, dtype);
      Buffer recv = Allocate(count, dtype);
      for (size_t i = 0; i < count; ++i) {
        StoreNumber(send.data(), i, dtype, Letter(static_cast<size_t>(rank()), 3, i));
      }
      const auto give = [&] { return communicator_.Send(send.data(), count, dtype, next); };
      const auto take = [&] { return communicator_.Recv(recv.data(), count, dtype, previous); };
      // Rank 0 sends first, so a ring of any length comes round.
      const bool sends_first = rank() == 0 || rank() % 2 == 0;
      if (!Expect(sends_first && rank() + 1 != size() ? give() : take(), what)) return;
      if (!Expect(sends_first && rank() + 1 != size() ? take() : give(), what)) return;
      Compare(recv, 0, count, dtype, what,
              [&](size_t i) { return Letter(static_cast<size_t>(previous), 3, i); });
    }
  }

  void Group() {
    for (const DataType dtype : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) Group(dtype, op);
    }
  }

  void Group(DataType dtype, ReduceOp op) {
    const std::string what = fmt::format("group of {} ({})", Name(dtype), Name(op));
    std::vector<Buffer> buffers;
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < 50; ++i) {
      const size_t count = i * 37 % 501;
      Buffer& buffer = buffers.emplace_back(Allocate(count, dtype));
      FillInput(buffer, 0, count, dtype, op, rank());
      tensors.push_back({buffer.data(), count});
    }
    if (!Expect(communicator_.GroupAllReduce(tensors, dtype, op), what)) return;
    for (size_t i = 0; i < buffers.size(); ++i) {
      Compare(buffers[i], 0, tensors[i].count, dtype, what,
              [&](size_t at) { return Expected(op, dtype, size(), at); });
    }
  }

  // NaN and infinities, and sums whose bits depend on the order: all ranks have the same, in each
  // run, within the bound of docs/collective.md.
  void Special() {
    constexpr size_t kCount = 40000;
    Buffer sum = Allocate(kCount, DataType::kFloat32);
    const auto at = [](Buffer& buffer, size_t i) {
      return LoadNumber(buffer.data(), i, DataType::kFloat32);
    };
    const auto fraction = [](size_t i, int of) {
      return static_cast<float>(1.0 /
                                static_cast<double>(1 + i % 97 + static_cast<size_t>(of) * 31));
    };
    for (size_t i = 0; i < kCount; ++i) {
      StoreNumber(sum.data(), i, DataType::kFloat32, fraction(i, rank()));
    }
    StoreNumber(sum.data(), 1, DataType::kFloat32, rank() == size() - 1 ? NAN : 1);
    StoreNumber(sum.data(), 2, DataType::kFloat32, INFINITY);
    Buffer again = Allocate(kCount, DataType::kFloat32);
    std::memcpy(again.data(), sum.data(), kCount * sizeof(float));
    if (!Expect(communicator_.AllReduce(sum.data(), sum.data(), kCount, DataType::kFloat32,
                                        ReduceOp::kSum),
                "sum of fractions")) {
      return;
    }
    if (!std::isnan(at(sum, 1)) || at(sum, 2) != INFINITY) Fail("sum: NaN or infinity lost");
    for (size_t i = 3; i < kCount; ++i) {
      double exact = 0;
      for (int of = 0; of < size(); ++of) exact += static_cast<double>(fraction(i, of));
      if (std::abs(at(sum, i) - exact) <= (size() - 1) * std::ldexp(exact, -24)) continue;
      Fail(fmt::format("sum of fractions: element {} is {}, not {}", i, at(sum, i), exact));
      break;
    }
    if (Expect(communicator_.AllReduce(again.data(), again.data(), kCount, DataType::kFloat32,
                                       ReduceOp::kSum),
               "sum of fractions again") &&
        std::memcmp(again.data(), sum.data(), kCount * sizeof(float)) != 0) {
      Fail("a second run has other bits");
    }
    // As whole numbers: the bits.
    Buffer least = Allocate(kCount, DataType::kInt32);
    Buffer most = Allocate(kCount, DataType::kInt32);
    if (Expect(communicator_.AllReduce(sum.data(), least.data(), kCount, DataType::kInt32,
                                       ReduceOp::kMin),
               "least bits") &&
        Expect(communicator_.AllReduce(sum.data(), most.data(), kCount, DataType::kInt32,
                                       ReduceOp::kMax),
               "most bits") &&
        std::memcmp(least.data(), most.data(), kCount * sizeof(float)) != 0) {
      Fail("the ranks have different bits");
    }
    if (is_nccl_) return;
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      float value[2] = {rank() == 0 ? NAN : 1.0F, static_cast<float>(rank())};
      if (Expect(communicator_.AllReduce(value, value, 2, DataType::kFloat32, op), "NaN") &&
          !std::isnan(value[0])) {
        Fail(fmt::format("{}: a NaN is lost", Name(op)));
      }
    }
  }

  Communicator& communicator_;
  std::vector<size_t> counts_;
  SuiteMemory memory_;
  bool is_nccl_;
  std::vector<std::string> problems_;
};

}  // namespace

void StoreNumber(void* base, size_t index, DataType dtype, double value) {
  const auto whole = static_cast<int64_t>(value);
  switch (dtype) {
    case DataType::kInt8:
      return Put(base, index, static_cast<int8_t>(whole));
    case DataType::kInt16:
      return Put(base, index, static_cast<int16_t>(whole));
    case DataType::kInt32:
      return Put(base, index, static_cast<int32_t>(whole));
    case DataType::kInt64:
      return Put(base, index, whole);
    case DataType::kUint8:
      return Put(base, index, static_cast<uint8_t>(whole));
    case DataType::kFloat16:
      // Twice rounded it would be wrong in rare cases; the sums here are exact in a float.
      return Put(base, index, static_cast<_Float16>(static_cast<float>(value)));
    case DataType::kBfloat16: {
      // The compiler has no such type: the nearer of the two neighbours, the even one of a tie.
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      const auto below = static_cast<uint16_t>(bits >> 16);
      const uint32_t rest = bits & 0xFFFF;
      const bool is_up = rest > 0x8000 || (rest == 0x8000 && below % 2 == 1);
      return Put(base, index, static_cast<uint16_t>(below + (is_up ? 1 : 0)));
    }
    case DataType::kFloat32:
      return Put(base, index, static_cast<float>(value));
    case DataType::kFloat64:
      return Put(base, index, value);
  }
}

double LoadNumber(const void* base, size_t index, DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
      return Take<int8_t>(base, index);
    case DataType::kInt16:
      return Take<int16_t>(base, index);
    case DataType::kInt32:
      return Take<int32_t>(base, index);
    case DataType::kInt64:
      return static_cast<double>(Take<int64_t>(base, index));
    case DataType::kUint8:
      return Take<uint8_t>(base, index);
    case DataType::kFloat16:
      return static_cast<double>(Take<_Float16>(base, index));
    case DataType::kBfloat16:
      return std::bit_cast<float>(static_cast<uint32_t>(Take<uint16_t>(base, index)) << 16);
    case DataType::kFloat32:
      return Take<float>(base, index);
    case DataType::kFloat64:
      return Take<double>(base, index);
  }
  return 0;
}

SuiteMemory HostMemory() {
  return {1, [](size_t bytes) {
            return std::shared_ptr<char>(new char[bytes], std::default_delete<char[]>());  // NOLINT
          }};
}

std::vector<std::string> CheckCollectives(Communicator& communicator,
                                          std::span<const size_t> counts,
                                          const SuiteMemory& memory) {
  return Suite(communicator, counts, memory).Run();
}

std::vector<std::string> CheckReductions(Communicator& communicator, size_t bytes) {
  return Suite(communicator, {}, HostMemory()).RunReductions(bytes);
}

}  // namespace hvdray
