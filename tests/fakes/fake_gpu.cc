// SPDX-License-Identifier: Apache-2.0
// Stands in for CUDA's runtime, NCCL and our kernels, where no GPU is: what nccl_communicator.cc
// calls of them, over host memory, with ranks that are threads of one process. Streams are threads
// that work off what is put into them; a collective waits in its stream for the other ranks.
#include "tests/fakes/fake_gpu.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/gpu_kernels.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

std::atomic<int> devices{8};
std::atomic<const void*> host_memory{nullptr};
thread_local int device = 0;
thread_local int group_depth = 0;

}  // namespace

void SetFakeGpus(int count) { devices = count; }
void SetFakeHostMemory(const void* address) { host_memory = address; }

cudaError_t CopyOnGpu(std::span<const GpuCopy> copies, DataType dtype, int divisor,
                      cudaStream_t stream) {
  for (const GpuCopy& copy : copies) {
    PutIntoFakeStream(stream, [=] {
      if (copy.from == copy.to && divisor == 1) return;
      const void* sources[] = {copy.from};
      FindReduce(dtype, ReduceOp::kAverage)(sources, 1, copy.to, nullptr, copy.count, divisor);
    });
  }
  return cudaSuccess;
}

}  // namespace hvdray

struct CUstream_st {
  CUstream_st() : thread([this] { Work(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      is_stopping = true;
    }
    changed.notify_all();
    thread.join();
  }
  void Work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return is_stopping || !queue.empty(); });
      if (queue.empty()) return;
      const std::function<void()> next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      next();
      lock.lock();
      ++done;
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  uint64_t put = 0;
  uint64_t done = 0;
  bool is_stopping = false;
  std::thread thread;
};

struct CUevent_st {
  cudaStream_t stream = nullptr;
  uint64_t put = 0;
};

namespace hvdray {

void PutIntoFakeStream(cudaStream_t stream, std::function<void()> work) {
  {
    const std::lock_guard lock(stream->mutex);
    stream->queue.push_back(std::move(work));
    ++stream->put;
  }
  stream->changed.notify_all();
}

}  // namespace hvdray

using hvdray::DataType;
using hvdray::ReduceOp;

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "fake error";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = hvdray::devices;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = hvdray::device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  hvdray::device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::memcpy(&properties->uuid, &device, sizeof device);
  return cudaSuccess;
}
// Nothing that a program asks about is there.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->type =
      address == hvdray::host_memory ? cudaMemoryTypeUnregistered : cudaMemoryTypeDevice;
  attributes->device = hvdray::device;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(stream->mutex);
  event->stream = stream;
  event->put = stream->put;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(event->stream->mutex);
  return event->stream->done >= event->put ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = ::operator new(bytes, std::nothrow);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  ::operator delete(memory);
  return cudaSuccess;
}
// The host's copy of a buffer is one of its own, so that a test sees what is not brought over.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (stream == nullptr) {
    std::memcpy(to, from, bytes);
  } else {
    hvdray::PutIntoFakeStream(stream, [=] { std::memcpy(to, from, bytes); });
  }
  return cudaSuccess;
}

}  // extern "C"

namespace {

size_t BytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 1;
  }
}

DataType TypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DataType::kInt8;
    case ncclInt32:
      return DataType::kInt32;
    case ncclInt64:
      return DataType::kInt64;
    case ncclFloat16:
      return DataType::kFloat16;
    case ncclBfloat16:
      return DataType::kBfloat16;
    case ncclFloat32:
      return DataType::kFloat32;
    case ncclFloat64:
      return DataType::kFloat64;
    default:
      return DataType::kUint8;
  }
}

ReduceOp OpOf(ncclRedOp_t op) {
  switch (op) {
    case ncclMin:
      return ReduceOp::kMin;
    case ncclMax:
      return ReduceOp::kMax;
    case ncclProd:
      return ReduceOp::kProduct;
    default:
      return ReduceOp::kSum;
  }
}

enum class Kind { kAllReduce, kReduce, kReduceScatter, kBroadcast, kAllGather, kSend, kRecv };

struct Op {
  Kind kind;
  const char* send;
  char* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;
};

// The ranks of a unique id.
struct World {
  explicit World(int ranks) : size(ranks) {}

  // Until `is_over` or an end.
  template <typename Predicate>
  bool Wait(std::unique_lock<std::mutex>& lock, const Predicate& is_over,
            const std::atomic<bool>& is_ended) {
    changed.wait(lock, [&] { return is_over() || is_ended; });
    return !is_ended;
  }

  struct Round {
    std::map<int, Op> ops;  // by rank
    int read = 0;
  };
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<uint64_t, Round> rounds;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> letters;  // by sender and receiver
};

std::mutex worlds_mutex;
std::map<std::string, std::shared_ptr<World>> worlds;

}  // namespace

struct ncclComm {
  int rank = 0;
  std::shared_ptr<World> world;
  std::atomic<uint64_t> rounds{0};
  std::shared_ptr<std::atomic<bool>> is_ended = std::make_shared<std::atomic<bool>>(false);

  std::vector<char> ResultOf(const World::Round& round) const {
    const Op& mine = round.ops.at(rank);
    const size_t bytes = mine.count * BytesOf(mine.type);
    std::vector<char> result;
    switch (mine.kind) {
      case Kind::kBroadcast: {
        const Op& root = round.ops.at(mine.peer);
        result.assign(root.send, root.send + bytes);
        return result;
      }
      case Kind::kAllGather:
        for (const auto& [peer, op] : round.ops) {
          result.insert(result.end(), op.send, op.send + bytes);
        }
        return result;
      case Kind::kReduce:
        if (mine.peer != rank) return result;
        [[fallthrough]];
      case Kind::kAllReduce:
      case Kind::kReduceScatter: {
        const size_t skip =
            mine.kind == Kind::kReduceScatter ? static_cast<size_t>(rank) * bytes : 0;
        std::vector<const void*> sources;
        for (const auto& [peer, op] : round.ops) sources.push_back(op.send + skip);
        result.resize(bytes);
        hvdray::FindReduce(TypeOf(mine.type), OpOf(mine.op))(sources.data(), sources.size(),
                                                             result.data(), nullptr, mine.count, 1);
        return result;
      }
      case Kind::kSend:
      case Kind::kRecv:
        return result;
    }
    return result;
  }

  // In the stream's thread.
  static void Run(const std::shared_ptr<ncclComm>& comm, const Op& op) {
    World& world = *comm->world;
    std::unique_lock lock(world.mutex);
    if (op.kind == Kind::kSend) {
      world.letters[{comm->rank, op.peer}].emplace_back(op.send, op.send + op.count);
      world.changed.notify_all();
      return;
    }
    if (op.kind == Kind::kRecv) {
      auto& letters = world.letters[{op.peer, comm->rank}];
      if (!world.Wait(
              lock, [&] { return !letters.empty(); }, *comm->is_ended))
        return;
      std::memcpy(op.recv, letters.front().data(), std::min(op.count, letters.front().size()));
      letters.pop_front();
      return;
    }
    const uint64_t number = comm->rounds++;
    World::Round& round = world.rounds[number];
    round.ops[comm->rank] = op;
    world.changed.notify_all();
    const auto have_all = [&] { return round.ops.size() == static_cast<size_t>(world.size); };
    if (!world.Wait(lock, have_all, *comm->is_ended)) return;
    const std::vector<char> result = comm->ResultOf(round);
    ++round.read;
    world.changed.notify_all();
    const auto has_read = [&] { return round.read == world.size; };
    if (!world.Wait(lock, has_read, *comm->is_ended)) return;
    if (!result.empty()) std::memcpy(op.recv, result.data(), result.size());
  }
};

namespace {

// Handles, as NCCL's are plain pointers.
std::mutex comms_mutex;
std::map<ncclComm_t, std::shared_ptr<ncclComm>> comms;

std::shared_ptr<ncclComm> Find(ncclComm_t comm) {
  const std::lock_guard lock(comms_mutex);
  return comms.at(comm);
}

struct Queued {
  ncclComm_t comm;
  cudaStream_t stream;
  Op op;
};
thread_local std::vector<Queued> group;

ncclResult_t Flush() {
  // Sends first: none of them waits for its receiver.
  std::stable_partition(group.begin(), group.end(),
                        [](const Queued& queued) { return queued.op.kind == Kind::kSend; });
  for (const Queued& queued : std::exchange(group, {})) {
    const std::shared_ptr<ncclComm> comm = Find(queued.comm);
    hvdray::PutIntoFakeStream(queued.stream, [comm, op = queued.op] { ncclComm::Run(comm, op); });
  }
  return ncclInProgress;
}

ncclResult_t Put(ncclComm_t comm, cudaStream_t stream, const Op& op) {
  group.push_back({comm, stream, op});
  return hvdray::group_depth > 0 ? ncclSuccess : Flush();
}

const char* Bytes(const void* memory) { return static_cast<const char*>(memory); }
char* Bytes(void* memory) { return static_cast<char*>(memory); }

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "fake error";
}
const char* ncclGetLastError(ncclComm_t /*comm*/) { return ""; }
ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number{0};
  const int mine = ++number;
  *id = {};
  std::memcpy(id->internal, &mine, sizeof mine);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  const auto made = std::make_shared<ncclComm>();
  made->rank = rank;
  {
    const std::lock_guard lock(worlds_mutex);
    std::shared_ptr<World>& world = worlds[std::string(id.internal, sizeof id.internal)];
    if (!world) world = std::make_shared<World>(size);
    made->world = world;
  }
  {
    const std::lock_guard lock(made->world->mutex);
    ++made->world->joined;
  }
  const std::lock_guard lock(comms_mutex);
  comms[made.get()] = made;
  *comm = made.get();
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::shared_ptr<ncclComm> found = Find(comm);
  const std::lock_guard lock(found->world->mutex);
  *error = found->world->joined < found->world->size ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t /*comm*/) { return ncclInProgress; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(comms_mutex);
  return comms.erase(comm) == 1 ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::shared_ptr<ncclComm> found = Find(comm);
  {
    const std::lock_guard lock(found->world->mutex);
    *found->is_ended = true;
  }
  found->world->changed.notify_all();
  return ncclCommDestroy(comm);
}
ncclResult_t ncclGroupStart() {
  ++hvdray::group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --hvdray::group_depth > 0 ? ncclSuccess : Flush(); }
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm, stream, {Kind::kAllReduce, Bytes(send), Bytes(recv), count, type, op, 0});
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm, stream, {Kind::kReduce, Bytes(send), Bytes(recv), count, type, op, root});
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm, stream, {Kind::kReduceScatter, Bytes(send), Bytes(recv), count, type, op, 0});
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Put(comm, stream,
             {Kind::kBroadcast, Bytes(send), Bytes(recv), count, type, ncclSum, root});
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Put(comm, stream, {Kind::kAllGather, Bytes(send), Bytes(recv), count, type, ncclSum, 0});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Put(comm, stream, {Kind::kSend, Bytes(send), nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Put(comm, stream, {Kind::kRecv, nullptr, Bytes(recv), count, type, ncclSum, peer});
}

}  // extern "C"
