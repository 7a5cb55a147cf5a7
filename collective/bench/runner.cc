// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/fd.h"
#include "base/text.h"
#include "collective/bench/patterns.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLeastIterations = 10;
constexpr size_t kMostIterations = 1000;
constexpr size_t kMostCopies = 10000;  // between two looks at the clock
constexpr int kCopyWindows = 5;
constexpr Duration kCopyTime = std::chrono::milliseconds(5);

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The number after `name` in text such as /proc/meminfo, in KiB there.
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view line = text.substr(at + name.size());
  line = line.substr(0, line.find('\n'));
  const std::vector<std::string_view> words = BlankSeparated(line);
  return words.empty() ? std::nullopt : ParseInteger<uint64_t>(words.front());
}

/// The value of each rank, in the order of ranks.
Result<std::vector<int64_t>> GatherNumbers(Communicator& communicator, int64_t mine) {
  std::vector<int64_t> all(static_cast<size_t>(communicator.size()));
  HVDRAY_RETURN_IF_ERROR(communicator.HostSide().AllGather(&mine, all.data(), 1, DataType::kInt64));
  return all;
}

}  // namespace

uint64_t AvailableMemory(std::string_view meminfo, std::string_view limit) {
  uint64_t available = UINT64_MAX;
  if (const auto kib = NumberAfter(meminfo, "MemAvailable:")) available = *kib << 10;
  // "max" is no number.
  if (const auto bytes = ParseInteger<uint64_t>(Trimmed(limit))) {
    available = std::min(available, *bytes);
  }
  return available;
}

uint64_t AvailableMemoryHere() {
  const Result<std::string> meminfo = ReadFile("/proc/meminfo");
  // In a container that is its own; elsewhere it is missing.
  Result<std::string> limit = ReadFile("/sys/fs/cgroup/memory.max");
  if (!limit.ok()) limit = ReadFile("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  return AvailableMemory(meminfo.value_or(""), limit.value_or(""));
}

Status CheckMemory(Communicator& communicator, const HostRoom& room, size_t max_bytes) {
  constexpr auto kMost = static_cast<uint64_t>(INT64_MAX);
  HVDRAY_ASSIGN_OR_RETURN(
      const std::vector<int64_t> available,
      GatherNumbers(communicator, static_cast<int64_t>(std::min(room.available_bytes, kMost))));
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<int64_t> sharers,
                          GatherNumbers(communicator, room.local_size));
  for (size_t rank = 0; rank < available.size(); ++rank) {
    const auto buffers = static_cast<uint64_t>(sharers[rank] * BenchRunner::kBuffers);
    const auto has = static_cast<uint64_t>(available[rank]);
    if (max_bytes <= has / buffers) continue;
    return {ErrorCode::kUsage,
            fmt::format("--maxbytes: {} of {} each do not fit the {} of memory that the host of "
                        "rank {} has left",
                        Count(buffers, "buffer"), SizeText(max_bytes), SizeText(has), rank),
            fmt::format("each rank needs {} buffers: take --maxbytes {}K or less",
                        BenchRunner::kBuffers, (has / buffers) >> 10)};
  }
  return {};
}

Result<BenchRunner> BenchRunner::Make(Communicator& communicator, const BenchOptions& options,
                                      size_t max_bytes) {
  const int device = communicator.device();
  HVDRAY_ASSIGN_OR_RETURN(BenchMemory first, BenchMemory::Allocate(device, max_bytes));
  HVDRAY_ASSIGN_OR_RETURN(BenchMemory second, BenchMemory::Allocate(device, max_bytes));
  return BenchRunner(communicator, options, std::move(first), std::move(second));
}

char* BenchRunner::HostOf(const void* data) const {
  const BenchMemory& memory = first_.Has(data) ? first_ : second_;
  return memory.host() + (static_cast<const char*>(data) - memory.data());
}

int BenchRunner::Previous() const {
  return (communicator_.rank() + communicator_.size() - 1) % communicator_.size();
}

std::vector<Operation> BenchRunner::CallsOf(const BenchCase& what, Place place) {
  Operation call{what.kind,  first_.data(), second_.data(), what.count,
                 what.dtype, what.op,       what.root};
  const size_t block = what.count * SizeOf(what.dtype);
  char* own = second_.data() + static_cast<size_t>(communicator_.rank()) * block;
  switch (what.kind) {
    case Collective::kSend: {
      const int next = (communicator_.rank() + 1) % communicator_.size();
      const Operation send{Collective::kSend, first_.data(), nullptr, what.count,
                           what.dtype,        what.op,       next};
      const Operation recv{Collective::kRecv, nullptr, second_.data(), what.count,
                           what.dtype,        what.op, Previous()};
      // A send may wait for its receiver. The last rank receives first, so that a ring of any
      // length comes round.
      const bool sends_first =
          communicator_.rank() % 2 == 0 && communicator_.rank() + 1 != communicator_.size();
      if (sends_first) return {send, recv};
      return {recv, send};
    }
    case Collective::kAllGather:
    case Collective::kGather:
      if (place == Place::kIn) call.send = own;
      break;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      if (place == Place::kIn) {
        call.send = second_.data();
        call.recv = own;
      }
      break;
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kBarrier:
    case Collective::kRecv:
      if (place == Place::kIn) call.send = second_.data();
      break;
  }
  return {call};
}

Status BenchRunner::Call(const std::vector<Operation>& calls) {
  for (const Operation& call : calls) HVDRAY_RETURN_IF_ERROR(communicator_.Run(call));
  return {};
}

Result<size_t> BenchRunner::AgreeOnIterations(double seconds_a_call) {
  if (options_.iterations > 0) return static_cast<size_t>(options_.iterations);
  const double budget = std::chrono::duration<double>(options_.budget).count();
  const double fit =
      std::clamp(budget / std::max(seconds_a_call, 1e-9), static_cast<double>(kLeastIterations),
                 static_cast<double>(kMostIterations));
  // Each rank has measured another time; rank 0's decides.
  auto iterations = static_cast<int64_t>(fit);
  HVDRAY_RETURN_IF_ERROR(communicator_.HostSide().Broadcast(&iterations, 1, DataType::kInt64, 0));
  return static_cast<size_t>(iterations);
}

Result<Timing> BenchRunner::MeasureIn(const BenchCase& what, Place place) {
  const std::vector<Operation> calls = CallsOf(what, place);
  // Zeros stay zeros however often they are reduced in place.
  HVDRAY_RETURN_IF_ERROR(first_.Clear(what.bytes));
  HVDRAY_RETURN_IF_ERROR(second_.Clear(what.bytes));
  const int warmup = std::max(options_.warmup_iterations, options_.iterations > 0 ? 0 : 1);
  const auto start = Clock::now();
  for (int i = 0; i < warmup; ++i) {
    HVDRAY_RETURN_IF_ERROR(communicator_.Barrier());
    HVDRAY_RETURN_IF_ERROR(Call(calls));
  }
  HVDRAY_ASSIGN_OR_RETURN(const size_t iterations,
                          AgreeOnIterations(SecondsSince(start) / std::max(warmup, 1)));
  std::vector<double> times_us(iterations);
  for (double& time_us : times_us) {
    HVDRAY_RETURN_IF_ERROR(communicator_.Barrier());
    const auto begin = Clock::now();
    HVDRAY_RETURN_IF_ERROR(Call(calls));
    time_us = SecondsSince(begin) * 1e6;
  }
  HVDRAY_RETURN_IF_ERROR(communicator_.HostSide().AllReduce(
      times_us.data(), times_us.data(), iterations, DataType::kFloat64, ReduceOp::kMax));
  Timing timing = TimingOf(what, communicator_.size(), std::move(times_us));
  if (options_.is_checking) {
    HVDRAY_ASSIGN_OR_RETURN(timing.wrong, Check(what, place));
  }
  return timing;
}

void BenchRunner::FillInput(const BenchCase& what, const std::vector<Operation>& calls) {
  const int rank = communicator_.rank();
  const int size = communicator_.size();
  // Of the two halves of send_recv, the one that sends.
  const Operation& call = calls.front().send != nullptr ? calls.front() : calls.back();
  char* input = HostOf(call.send);
  const auto blocks = [&](int from) {
    const size_t block = what.count * SizeOf(what.dtype);
    for (int to = 0; to < size; ++to) {
      Pattern::Letter(what.dtype, from, to)
          .Fill(input + static_cast<size_t>(to) * block, 0, what.count);
    }
  };
  switch (what.kind) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return Pattern::Input(what.op, what.dtype, rank, size).Fill(input, 0, what.count);
    case Collective::kReduceScatter:
      return Pattern::Input(what.op, what.dtype, rank, size)
          .Fill(input, 0, what.count * static_cast<size_t>(size));
    case Collective::kAllToAll:
      return blocks(rank);
    case Collective::kScatter:
      if (rank == what.root) blocks(rank);
      return;
    case Collective::kBroadcast:
      if (rank == what.root) Pattern::Letter(what.dtype, rank, 0).Fill(input, 0, what.count);
      return;
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kSend:
      return Pattern::Letter(what.dtype, rank, 0).Fill(input, 0, what.count);
    case Collective::kBarrier:
    case Collective::kRecv:
      return;
  }
}

uint64_t BenchRunner::CountWrong(const BenchCase& what, const std::vector<Operation>& calls) const {
  const int rank = communicator_.rank();
  const int size = communicator_.size();
  const Operation& call = calls.front().recv != nullptr ? calls.front() : calls.back();
  const char* output = HostOf(call.recv);
  const bool is_root = rank == what.root;
  const auto blocks = [&](int to_of_all) {
    uint64_t wrong = 0;
    const size_t block = what.count * SizeOf(what.dtype);
    for (int from = 0; from < size; ++from) {
      wrong += Pattern::Letter(what.dtype, from, to_of_all)
                   .CountWrong(output + static_cast<size_t>(from) * block, 0, what.count);
    }
    return wrong;
  };
  switch (what.kind) {
    case Collective::kAllReduce:
      return Pattern::Reduced(what.op, what.dtype, size).CountWrong(output, 0, what.count);
    case Collective::kReduce:
      if (!is_root) return 0;
      return Pattern::Reduced(what.op, what.dtype, size).CountWrong(output, 0, what.count);
    case Collective::kReduceScatter:
      return Pattern::Reduced(what.op, what.dtype, size)
          .CountWrong(output, static_cast<size_t>(rank) * what.count, what.count);
    case Collective::kBroadcast:
      return Pattern::Letter(what.dtype, what.root, 0).CountWrong(output, 0, what.count);
    case Collective::kAllGather:
      return blocks(0);
    case Collective::kGather:
      return is_root ? blocks(0) : 0;
    case Collective::kAllToAll:
      return blocks(rank);
    case Collective::kScatter:
      return Pattern::Letter(what.dtype, what.root, rank).CountWrong(output, 0, what.count);
    case Collective::kSend:
      return Pattern::Letter(what.dtype, Previous(), 0).CountWrong(output, 0, what.count);
    case Collective::kBarrier:
    case Collective::kRecv:
      return 0;
  }
  return 0;
}

Result<uint64_t> BenchRunner::Check(const BenchCase& what, Place place) {
  const std::vector<Operation> calls = CallsOf(what, place);
  // What no call writes must not look right.
  std::memset(first_.host(), 0xFF, what.bytes);
  std::memset(second_.host(), 0xFF, what.bytes);
  FillInput(what, calls);
  HVDRAY_RETURN_IF_ERROR(first_.Upload(what.bytes));
  HVDRAY_RETURN_IF_ERROR(second_.Upload(what.bytes));
  HVDRAY_RETURN_IF_ERROR(Call(calls));
  HVDRAY_RETURN_IF_ERROR(first_.Download(what.bytes));
  HVDRAY_RETURN_IF_ERROR(second_.Download(what.bytes));
  auto wrong = static_cast<int64_t>(CountWrong(what, calls));
  HVDRAY_RETURN_IF_ERROR(
      communicator_.HostSide().AllReduce(&wrong, &wrong, 1, DataType::kInt64, ReduceOp::kSum));
  return static_cast<uint64_t>(wrong);
}

Result<BenchRow> BenchRunner::Measure(const BenchCase& what) {
  BenchRow row;
  row.what = what;
  row.backend = communicator_.backend();
  // A broadcast has one buffer. What send_recv receives would overwrite what it has yet to send.
  if (what.kind != Collective::kBroadcast) {
    HVDRAY_ASSIGN_OR_RETURN(row.out_of_place, MeasureIn(what, Place::kOut));
  }
  if (what.kind != Collective::kSend) {
    HVDRAY_ASSIGN_OR_RETURN(row.in_place, MeasureIn(what, Place::kIn));
  }
  return row;
}

Result<double> BenchRunner::CopyForAWhile(size_t bytes) {
  // Many at a time: reading the clock, or waiting for a GPU, takes longer than copying a block.
  const size_t at_a_time = communicator_.device() < 0 ? size_t{64} << 10 : size_t{256} << 20;
  const size_t batch = std::clamp<size_t>(at_a_time / bytes, 1, kMostCopies);
  const double limit = std::chrono::duration<double>(kCopyTime).count();
  const auto start = Clock::now();
  double copied = 0;
  double took = 0;
  do {
    HVDRAY_RETURN_IF_ERROR(second_.CopyFrom(first_, bytes, batch));
    copied += static_cast<double>(batch * bytes);
    took = SecondsSince(start);
  } while (took < limit);
  return copied / took / 1e9;
}

Result<BenchRunner::CopySpeed> BenchRunner::MeasureCopy(size_t bytes) {
  const auto known = copy_speeds_.find(bytes);
  if (known != copy_speeds_.end()) return known->second;
  Communicator& host = communicator_.HostSide();
  CopySpeed best;
  // Whatever disturbs a copy makes it slower, and the limit is what is possible.
  for (int window = 0; window < kCopyWindows; ++window) {
    HVDRAY_RETURN_IF_ERROR(communicator_.Barrier());
    HVDRAY_ASSIGN_OR_RETURN(const double mine, CopyForAWhile(bytes));
    double mean = mine;
    double extremes[2] = {-mine, mine};
    HVDRAY_RETURN_IF_ERROR(host.AllReduce(&mean, &mean, 1, DataType::kFloat64, ReduceOp::kAverage));
    HVDRAY_RETURN_IF_ERROR(
        host.AllReduce(extremes, extremes, 2, DataType::kFloat64, ReduceOp::kMax));
    if (mean > best.mean_gbps) best = {-extremes[0], mean, extremes[1]};
  }
  copy_speeds_[bytes] = best;
  return best;
}

}  // namespace hvdray
