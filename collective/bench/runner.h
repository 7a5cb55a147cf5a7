// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a sweep over a communicator, and measures what this machine copies. All ranks
// call the same functions in the same order and get the same figures.
#ifndef HVDRAY_COLLECTIVE_BENCH_RUNNER_H_
#define HVDRAY_COLLECTIVE_BENCH_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collective/bench/memory.h"
#include "collective/bench/results.h"
#include "collective/bench/sweep.h"
#include "collective/communicator.h"

namespace hvdray {

struct BenchOptions {
  int iterations = 0;  ///< Of each timing; 0: as many as `budget` allows, from 10 to 1000.
  int warmup_iterations = 5;
  bool is_checking = true;
  Duration budget{std::chrono::milliseconds(200)};  ///< Of each timing.
};

/// Bytes that this process and its neighbours could still take: of the machine, or of the memory
/// cgroup that limits a container. `meminfo` and `limit`: the text of /proc/meminfo and of the
/// cgroup's memory.max; what they do not say limits nothing. Pure.
uint64_t AvailableMemory(std::string_view meminfo, std::string_view limit);
/// The same of this machine.
uint64_t AvailableMemoryHere();

/// What one rank finds on its host.
struct HostRoom {
  uint64_t available_bytes = 0;
  int local_size = 1;  ///< Ranks that share it.
};

/// Whether every host has the buffers of its ranks: BenchRunner::kBuffers of `max_bytes` each.
/// Errors: kUsage naming the first rank whose host does not, the same on all ranks.
Status CheckMemory(Communicator& communicator, const HostRoom& room, size_t max_bytes);

class BenchRunner {
 public:
  static constexpr int kBuffers = 2;

  /// `max_bytes`: of the largest case. Takes the memory now. Borrows `communicator`.
  /// Errors: kOutOfResources.
  static Result<BenchRunner> Make(Communicator& communicator, const BenchOptions& options,
                                  size_t max_bytes);

  /// Errors of this and the others: those of the communicator.
  Result<BenchRow> Measure(const BenchCase& what);

  struct CopySpeed {
    double least_gbps = 0;
    double mean_gbps = 0;
    double most_gbps = 0;
  };
  /// What a rank copies while all ranks do, in blocks of `bytes`, at most those of Make(): the best
  /// of several attempts. Measured once for each size.
  Result<CopySpeed> MeasureCopy(size_t bytes);

 private:
  enum class Place : uint8_t { kOut, kIn };

  BenchRunner(Communicator& communicator, const BenchOptions& options, BenchMemory first,
              BenchMemory second)
      : communicator_(communicator),
        options_(options),
        first_(std::move(first)),
        second_(std::move(second)) {}

  std::vector<Operation> CallsOf(const BenchCase& what, Place place);
  Status Call(const std::vector<Operation>& calls);
  Result<size_t> AgreeOnIterations(double seconds_a_call);
  Result<Timing> MeasureIn(const BenchCase& what, Place place);
  Result<uint64_t> Check(const BenchCase& what, Place place);
  void FillInput(const BenchCase& what, const std::vector<Operation>& calls);
  uint64_t CountWrong(const BenchCase& what, const std::vector<Operation>& calls) const;
  int Previous() const;
  char* HostOf(const void* data) const;
  Result<double> CopyForAWhile(size_t bytes);

  Communicator& communicator_;
  BenchOptions options_;
  BenchMemory first_;
  BenchMemory second_;
  std::map<size_t, CopySpeed> copy_speeds_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_RUNNER_H_
