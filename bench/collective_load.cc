// SPDX-License-Identifier: Apache-2.0
// One rank of an all-reduce benchmark: float32, sum, in place, a barrier before each call. Rank 0
// prints a line of JSON: bytes to microseconds, the median of its own calls.
//   collective_load hvdray|gloo|gloo-chunked|memcpy BYTES...   under `hvdray run`
//   collective_load openmpi|mpich BYTES...              under mpirun.openmpi, mpirun.mpich
//   collective_load NAME first                          one all-reduce of 1 KB, and the end
//   collective_load hvdray tensors                      1,000 tensors of 1 KB, one by one and as a
//                                                       group: microseconds a tensor
// The MPIs are loaded at run time by the ABI of their Debian packages, so no headers of theirs are
// needed.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "collective/store.h"

namespace hvdray {
namespace {

struct Peer {
  int rank = 0;
  std::function<void()> barrier;
  std::function<void(float*, size_t)> all_reduce;
  std::function<void(std::span<const Tensor>)> group;
  std::function<void()> finish;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "collective_load: %s\n", what.c_str());
  std::exit(1);
}

void Expect(const Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

CommunicatorOptions Options() {
  auto options = CommunicatorOptionsFrom(Environment::FromProcess(), "bench");
  if (!options.ok()) Fail(options.status().ToString());
  return *options;
}

Peer Hvdray() {
  auto made = MakeCommunicator(Options());
  if (!made.ok()) Fail(made.status().ToString());
  std::shared_ptr<Communicator> communicator = std::move(*made);
  Peer peer;
  peer.rank = communicator->rank();
  peer.barrier = [communicator] { Expect(communicator->Barrier()); };
  peer.all_reduce = [communicator](float* data, size_t count) {
    Expect(communicator->AllReduce(data, data, count, DataType::kFloat32, ReduceOp::kSum));
  };
  peer.group = [communicator](std::span<const Tensor> tensors) {
    Expect(communicator->GroupAllReduce(tensors, DataType::kFloat32, ReduceOp::kSum));
  };
  peer.finish = [] {};
  return peer;
}

// No all-reduce: what memory itself allows. One in place reads and writes at least all bytes of a
// rank once, as a copy of them does.
Peer Copy() {
  Peer peer = Hvdray();
  auto from = std::make_shared<std::vector<float>>();
  peer.all_reduce = [from](float* data, size_t count) {
    from->resize(std::max(from->size(), count));
    std::memcpy(data, from->data(), count * sizeof(float));
  };
  return peer;
}

class GlooStore : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(const CommunicatorOptions& options)
      : store_(options.rendezvous_host, options.rendezvous_port, options.scope, options.timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Expect(store_.Set(key, std::string(data.begin(), data.end())));
  }
  std::vector<char> get(const std::string& key) override {
    const Result<std::string> value = store_.Get(key, std::chrono::seconds(30));
    Expect(value.ok() ? Status() : value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) (void)get(key);
  }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& /*timeout*/) override {
    wait(keys);
  }

 private:
  hvdray::Store store_;
};

// Gloo's ring as its users call it, or its older one, which its own benchmark has as well.
Peer Gloo(bool is_chunked) {
  const CommunicatorOptions options = Options();
  gloo::transport::tcp::attr attributes;
  attributes.iface = options.interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  GlooStore store(options);
  auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
  context->connectFullMesh(store, device);
  Peer peer;
  peer.rank = options.rank;
  peer.barrier = [context] {
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
  };
  peer.all_reduce = [context](float* data, size_t count) {
    gloo::AllreduceOptions call(context);
    call.setOutput(data, count);
    call.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    call.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(call);
  };
  if (is_chunked) {
    auto ring = std::make_shared<std::unique_ptr<gloo::AllreduceRingChunked<float>>>();
    auto of = std::make_shared<std::pair<float*, size_t>>();
    peer.all_reduce = [context, ring, of](float* data, size_t count) {
      if (*of != std::pair(data, count)) {
        *of = {data, count};
        *ring = std::make_unique<gloo::AllreduceRingChunked<float>>(
            context, std::vector<float*>{data}, static_cast<int>(count));
      }
      (*ring)->run();
    };
  }
  peer.finish = [context] {};
  return peer;
}

// Both have the same functions; handles are pointers in Open MPI and ints in MPICH.
template <typename Handle>
Peer Mpi(void* library, Handle world, Handle type, Handle sum, void* in_place) {
  const auto find = [library](const char* name) {
    void* found = ::dlsym(library, name);
    if (found == nullptr) Fail(name);
    return found;
  };
  auto* init = reinterpret_cast<int (*)(int*, char***)>(find("MPI_Init"));
  auto* rank_of = reinterpret_cast<int (*)(Handle, int*)>(find("MPI_Comm_rank"));
  auto* barrier = reinterpret_cast<int (*)(Handle)>(find("MPI_Barrier"));
  auto* all_reduce = reinterpret_cast<int (*)(const void*, void*, int, Handle, Handle, Handle)>(
      find("MPI_Allreduce"));
  auto* finalize = reinterpret_cast<int (*)()>(find("MPI_Finalize"));
  if (init(nullptr, nullptr) != 0) Fail("MPI_Init");
  Peer peer;
  if (rank_of(world, &peer.rank) != 0) Fail("MPI_Comm_rank");
  peer.barrier = [=] { (void)barrier(world); };
  peer.all_reduce = [=](float* data, size_t count) {
    if (all_reduce(in_place, data, static_cast<int>(count), type, sum, world) != 0)
      Fail("MPI_Allreduce");
  };
  peer.finish = [=] { (void)finalize(); };
  return peer;
}

Peer Load(const std::string& name) {
  if (name == "hvdray") return Hvdray();
  if (name == "memcpy") return Copy();
  if (name == "gloo" || name == "gloo-chunked") return Gloo(name != "gloo");
  const bool is_openmpi = name == "openmpi";
  const char* file = is_openmpi ? "libmpi.so.40" : "libmpich.so.12";
  void* library = ::dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) Fail(::dlerror());
  if (!is_openmpi) {
    return Mpi<int>(library, 0x44000000, 0x4c00040a, 0x58000003, reinterpret_cast<void*>(-1));
  }
  return Mpi<void*>(library, ::dlsym(library, "ompi_mpi_comm_world"),
                    ::dlsym(library, "ompi_mpi_float"), ::dlsym(library, "ompi_mpi_op_sum"),
                    reinterpret_cast<void*>(1));
}

double Median(Peer& peer, size_t bytes) {
  using Clock = std::chrono::steady_clock;
  // Sums of zeros stay what they are. At a cache line, as torch's allocator puts its tensors.
  constexpr size_t kAlignment = 64;
  std::vector<char> memory(bytes + kAlignment, 0);
  void* aligned = memory.data();
  size_t space = memory.size();
  auto* data = static_cast<float*>(std::align(kAlignment, bytes, aligned, space));
  const size_t calls = std::clamp<size_t>((size_t{256} << 20) / bytes, 15, 2000);
  const size_t warm_up = calls / 5 + 1;
  std::vector<double> times;
  for (size_t i = 0; i < warm_up + calls; ++i) {
    peer.barrier();
    const auto start = Clock::now();
    peer.all_reduce(data, bytes / sizeof(float));
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (i >= warm_up) times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(calls / 2), times.end());
  return times[calls / 2];
}

// Microseconds a tensor: one by one, together.
std::pair<double, double> OfTensors(Peer& peer) {
  constexpr size_t kTensors = 1000;
  std::vector<std::vector<float>> data(kTensors, std::vector<float>(256, 0.0F));
  std::vector<Tensor> tensors;
  for (auto& values : data) tensors.push_back({values.data(), values.size()});
  std::vector<double> alone;
  std::vector<double> together;
  const auto timed = [&](std::vector<double>& times, const std::function<void()>& act) {
    peer.barrier();
    const auto start = std::chrono::steady_clock::now();
    act();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / kTensors);
  };
  for (int i = 0; i < 15; ++i) {
    timed(alone, [&] {
      for (auto& values : data) peer.all_reduce(values.data(), values.size());
    });
    timed(together, [&] { peer.group(tensors); });
  }
  std::sort(alone.begin(), alone.end());
  std::sort(together.begin(), together.end());
  return {alone[alone.size() / 2], together[together.size() / 2]};
}

int Main(int argc, char** argv) {
  if (argc < 3)
    Fail("usage: collective_load hvdray|gloo|gloo-chunked|memcpy|openmpi|mpich BYTES...|first");
  Peer peer = Load(argv[1]);
  std::string line;
  if (std::string(argv[2]) == "first") {
    std::vector<float> data(256, 1.0F);
    peer.all_reduce(data.data(), data.size());
  } else if (std::string(argv[2]) == "tensors" && peer.group) {
    const auto [alone, together] = OfTensors(peer);
    line = fmt::format("\"1\": {:.3f}, \"1000\": {:.3f}", alone, together);
  } else {
    for (int i = 2; i < argc; ++i) {
      line += fmt::format("{}\"{}\": {:.3f}", i > 2 ? ", " : "", argv[i],
                          Median(peer, std::strtoull(argv[i], nullptr, 10)));
    }
  }
  if (peer.rank == 0 && !line.empty()) std::printf("{%s}\n", line.c_str());
  std::fflush(stdout);
  peer.finish();
  return 0;
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) { return hvdray::Main(argc, argv); }
