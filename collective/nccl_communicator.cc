// SPDX-License-Identifier: Apache-2.0
// Collectives of GPUs' memory. NCCL moves the bytes; a mesh of the same ranks brings its unique id
// to them, and tells when one dies, of which NCCL itself need not learn.
//
// NCCL's calls don't block ("blocking = 0"), so each of them can be given up. Its communicator is
// used with mutex_ held; nothing of the mesh is called then, for the mesh calls back with its own.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "collective/backends.h"
#include "collective/gpu_kernels.h"
#include "collective/mesh.h"

namespace hvdray {
namespace {

// Tensors of a group begin at multiples of it, where memory is fastest.
constexpr size_t kAlignment = 16;

// What each rank tells the others before they begin.
struct Introduction {
  char problem[128] = {};  // ends with a zero; empty: none
  char device[16] = {};    // unique in the world
  int32_t nccl_version = 0;
  ncclUniqueId id = {};  // rank 0's
};

std::optional<ncclDataType_t> TypeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
      return ncclInt8;
    case DataType::kInt16:
      return std::nullopt;
    case DataType::kInt32:
      return ncclInt32;
    case DataType::kInt64:
      return ncclInt64;
    case DataType::kUint8:
      return ncclUint8;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBfloat16:
      return ncclBfloat16;
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
  }
  return std::nullopt;
}

std::optional<ncclRedOp_t> OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:  // divided afterwards
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return ncclProd;
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      return std::nullopt;
  }
  return std::nullopt;
}

Status CheckCuda(cudaError_t error) {
  if (error == cudaSuccess) return {};
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfResources : ErrorCode::kSystem;
  return {code, fmt::format("CUDA: {}", cudaGetErrorString(error))};
}

// The device of the calling thread, until the end of a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    if (before_ != device) (void)cudaSetDevice(device);
    device_ = device;
  }
  ~DeviceScope() {
    if (before_ != device_) (void)cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  int device_ = 0;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const CommunicatorOptions& options, int device, std::shared_ptr<Mesh> mesh,
                   std::unique_ptr<Communicator> host)
      : Communicator(options.rank, options.size),
        timeout_(options.timeout),
        device_(device),
        mesh_(std::move(mesh)),
        host_(std::move(host)),
        stream_(static_cast<cudaStream_t>(options.stream)),
        is_queueing_(options.stream != nullptr) {
    // A program that waits for its stream must not wait for ever.
    if (mesh_) mesh_->OnEnd([this] { Drop(); });
  }

  ~NcclCommunicator() override {
    if (mesh_) mesh_->OnEnd({});
    const DeviceScope scope(device_);
    Leave();
    if (scratch_ != nullptr) (void)cudaFree(scratch_);
    if (done_ != nullptr) (void)cudaEventDestroy(done_);
    if (!is_queueing_ && stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  std::string_view backend() const override { return "nccl"; }
  int device() const override { return device_; }
  Communicator& HostSide() override { return *host_; }

  Status Join(const ncclUniqueId& id) {
    const DeviceScope scope(device_);
    if (!is_queueing_) HVDRAY_RETURN_IF_ERROR(CheckCuda(cudaStreamCreate(&stream_)));
    HVDRAY_RETURN_IF_ERROR(CheckCuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming)));
    int reads_host = 0;
    HVDRAY_RETURN_IF_ERROR(
        CheckCuda(cudaDeviceGetAttribute(&reads_host, cudaDevAttrPageableMemoryAccess, device_)));
    reads_host_ = reads_host != 0;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Status status;
    {
      const std::lock_guard lock(mutex_);
      status = CheckNccl(ncclCommInitRankConfig(&comm_, size(), id, rank(), &config));
    }
    if (status.ok()) status = Settle();
    return status.ok() ? status : Fail(std::move(status));
  }

  void Abort() override {
    has_ended_ = true;
    if (mesh_) mesh_->Abort();
    Drop();
  }

  void UseTable(const AlgorithmTable& /*table*/) override {}

  Status Synchronize() override {
    const DeviceScope scope(device_);
    Status status = CheckAlive();
    if (status.ok()) status = Finish();
    return status.ok() ? status : Fail(std::move(status).WithContext("synchronize"));
  }

 private:
  Status Execute(const Operation& operation) override {
    HVDRAY_RETURN_IF_ERROR(CheckSupported(operation.kind, operation.dtype, operation.op));
    return Do(Name(operation.kind), operation.kind == Collective::kBarrier,
              [&] { return Begin(operation); });
  }

  Status ExecuteGroup(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) override {
    HVDRAY_RETURN_IF_ERROR(CheckSupported(Collective::kAllReduce, dtype, op));
    return Do("group_all_reduce", false, [&] { return BeginGroup(tensors, dtype, op); });
  }

  static Status CheckSupported(Collective kind, DataType dtype, ReduceOp op) {
    if (!IsReduction(kind) || (TypeOf(dtype) && OpOf(op))) return {};
    return {ErrorCode::kNotSupported,
            fmt::format("{}: NCCL has no {} of {}", Name(kind), Name(op), Name(dtype))};
  }

  template <typename Act>
  Status Do(std::string_view name, bool waits, const Act& begin) {
    const DeviceScope scope(device_);
    Status status = CheckAlive();
    if (status.ok()) status = begin();
    if (status.ok() && (waits || !is_queueing_)) status = Finish();
    if (status.ok() && waits) status = host_->Barrier();
    return status.ok() ? status : Fail(std::move(status).WithContext(name));
  }

  // A kernel that reads what its GPU can't reach would end CUDA in this process.
  Status CheckBuffer(const void* buffer, size_t bytes) const {
    if (bytes == 0) return {};
    cudaPointerAttributes known{};
    HVDRAY_RETURN_IF_ERROR(CheckCuda(cudaPointerGetAttributes(&known, buffer)));
    std::string owner;
    if (known.type == cudaMemoryTypeUnregistered && !reads_host_) owner = "the host";
    if (known.type == cudaMemoryTypeDevice && known.device != device_) {
      owner = fmt::format("GPU {}", known.device);
    }
    if (owner.empty()) return {};
    return {ErrorCode::kUsage, fmt::format("a buffer of rank {} is in memory of {}, not of GPU {}",
                                           rank(), owner, device_)};
  }

  Status Begin(const Operation& operation) {
    const BufferBytes sizes = BytesOf(operation, rank(), size());
    HVDRAY_RETURN_IF_ERROR(CheckBuffer(operation.send, sizes.send));
    HVDRAY_RETURN_IF_ERROR(CheckBuffer(operation.recv, sizes.recv));
    const size_t element = SizeOf(operation.dtype);
    const size_t bytes = operation.count * element;
    const auto rank_at = static_cast<size_t>(rank());
    const bool is_root = operation.root == rank();
    switch (operation.kind) {
      case Collective::kAllReduce:
      case Collective::kReduce:
      case Collective::kReduceScatter:
        return Reduce(operation);
      case Collective::kBroadcast:
        return Call([&] {
          return ncclBroadcast(operation.send, operation.recv, bytes, ncclUint8, operation.root,
                               comm_, stream_);
        });
      case Collective::kAllGather:
        if (!operation.recv_counts.empty()) return AllGatherV(operation);
        return Call([&] {
          return ncclAllGather(operation.send, operation.recv, bytes, ncclUint8, comm_, stream_);
        });
      case Collective::kAllToAll:
        return AllToAll(operation);
      case Collective::kGather: {
        auto* recv = static_cast<char*>(operation.recv);
        if (is_root) {
          HVDRAY_RETURN_IF_ERROR(CopyHere(operation.send, recv + rank_at * bytes, bytes));
        }
        return Call([&] {
          return Group([&](int peer) {
            if (!is_root) return SendTo(peer, operation.send, peer == operation.root ? bytes : 0);
            return RecvFrom(peer, recv + static_cast<size_t>(peer) * bytes, bytes);
          });
        });
      }
      case Collective::kScatter: {
        const char* send = static_cast<const char*>(operation.send);
        if (is_root) {
          HVDRAY_RETURN_IF_ERROR(CopyHere(send + rank_at * bytes, operation.recv, bytes));
        }
        return Call([&] {
          return Group([&](int peer) {
            if (is_root) return SendTo(peer, send + static_cast<size_t>(peer) * bytes, bytes);
            return RecvFrom(peer, operation.recv, peer == operation.root ? bytes : 0);
          });
        });
      }
      case Collective::kSend:
        return Call([&] { return SendTo(operation.root, operation.send, bytes); });
      case Collective::kRecv:
        return Call([&] { return RecvFrom(operation.root, operation.recv, bytes); });
      case Collective::kBarrier:
        return {};
    }
    return {ErrorCode::kInternal, "unknown collective"};
  }

  Status Reduce(const Operation& operation) {
    const ncclDataType_t type = *TypeOf(operation.dtype);
    const ncclRedOp_t op = *OpOf(operation.op);
    HVDRAY_RETURN_IF_ERROR(Call([&] {
      switch (operation.kind) {
        case Collective::kReduce:
          return ncclReduce(operation.send, operation.recv, operation.count, type, op,
                            operation.root, comm_, stream_);
        case Collective::kReduceScatter:
          return ncclReduceScatter(operation.send, operation.recv, operation.count, type, op, comm_,
                                   stream_);
        default:
          return ncclAllReduce(operation.send, operation.recv, operation.count, type, op, comm_,
                               stream_);
      }
    }));
    if (operation.op != ReduceOp::kAverage || size() == 1 ||
        (operation.kind == Collective::kReduce && operation.root != rank())) {
      return {};
    }
    const GpuCopy in_place{operation.recv, operation.recv, operation.count};
    return CheckCuda(CopyOnGpu({&in_place, 1}, operation.dtype, size(), stream_));
  }

  Status AllGatherV(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    auto* place = static_cast<char*>(operation.recv);
    return Call([&] {
      return Group([&, place](int peer) mutable {
        const size_t bytes = operation.recv_counts[static_cast<size_t>(peer)] * element;
        char* to = std::exchange(place, place + bytes);
        const void* from = peer == rank() ? operation.send : to;
        return bytes == 0 ? ncclSuccess
                          : ncclBroadcast(from, to, bytes, ncclUint8, peer, comm_, stream_);
      });
    });
  }

  Status AllToAll(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const auto bytes_of = [&](std::span<const size_t> counts, int peer) {
      return (counts.empty() ? operation.count : counts[static_cast<size_t>(peer)]) * element;
    };
    const char* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    if (send == recv) {
      const size_t whole = operation.count * element * static_cast<size_t>(size());
      HVDRAY_ASSIGN_OR_RETURN(char* scratch, Scratch(whole));
      HVDRAY_RETURN_IF_ERROR(CopyHere(send, scratch, whole));
      send = scratch;
    }
    const char* own_from = send;
    char* own_to = recv;
    for (int peer = 0; peer < rank(); ++peer) {
      own_from += bytes_of(operation.send_counts, peer);
      own_to += bytes_of(operation.recv_counts, peer);
    }
    HVDRAY_RETURN_IF_ERROR(CopyHere(own_from, own_to, bytes_of(operation.recv_counts, rank())));
    return Call([&] {
      return Group([&, send, recv](int peer) mutable {
        const size_t out = bytes_of(operation.send_counts, peer);
        const size_t in = bytes_of(operation.recv_counts, peer);
        const ncclResult_t sent = SendTo(peer, std::exchange(send, send + out), out);
        const ncclResult_t received = RecvFrom(peer, std::exchange(recv, recv + in), in);
        return sent != ncclSuccess ? sent : received;
      });
    });
  }

  Status BeginGroup(std::span<const Tensor> tensors, DataType dtype, ReduceOp op) {
    const size_t element = SizeOf(dtype);
    size_t count = 0;
    std::vector<GpuCopy> in;
    in.reserve(tensors.size());
    const auto padded = [&](size_t elements) {
      return (elements * element + kAlignment - 1) / kAlignment * kAlignment / element;
    };
    for (const Tensor& tensor : tensors) count += padded(tensor.count);
    // One for all: a look takes as long as packing a small tensor.
    const auto full = std::find_if(tensors.begin(), tensors.end(),
                                   [](const Tensor& tensor) { return tensor.count > 0; });
    HVDRAY_RETURN_IF_ERROR(CheckBuffer(full->data, full->count));
    HVDRAY_ASSIGN_OR_RETURN(char* place, Scratch(count * element));
    for (const Tensor& tensor : tensors) {
      in.push_back({tensor.data, place, tensor.count});
      place += padded(tensor.count) * element;
    }
    HVDRAY_RETURN_IF_ERROR(CheckCuda(CopyOnGpu(in, dtype, 1, stream_)));
    // What lies between the tensors is reduced, too, and nobody reads it.
    HVDRAY_RETURN_IF_ERROR(Call([&] {
      return ncclAllReduce(scratch_, scratch_, count, *TypeOf(dtype), *OpOf(op), comm_, stream_);
    }));
    std::vector<GpuCopy> out = std::move(in);
    for (GpuCopy& copy : out) {
      void* tensor = const_cast<void*>(copy.from);  // NOLINT: it is a Tensor's
      copy = {copy.to, tensor, copy.count};
    }
    return CheckCuda(CopyOnGpu(out, dtype, op == ReduceOp::kAverage ? size() : 1, stream_));
  }

  // The following four run in Call().
  template <typename Act>
  ncclResult_t Group(const Act& for_each_peer) {
    Act act = for_each_peer;
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < size() && result == ncclSuccess; ++peer) result = act(peer);
    const ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  }

  ncclResult_t SendTo(int peer, const void* data, size_t bytes) {
    if (bytes == 0 || peer == rank()) return ncclSuccess;
    return ncclSend(data, bytes, ncclUint8, peer, comm_, stream_);
  }

  ncclResult_t RecvFrom(int peer, void* data, size_t bytes) {
    if (bytes == 0 || peer == rank()) return ncclSuccess;
    return ncclRecv(data, bytes, ncclUint8, peer, comm_, stream_);
  }

  // With mutex_ held.
  Status CheckNccl(ncclResult_t result) const {
    if (result == ncclSuccess || result == ncclInProgress) return {};
    std::string text = fmt::format("NCCL: {}", ncclGetErrorString(result));
    const char* last = comm_ != nullptr ? ncclGetLastError(comm_) : nullptr;
    if (last != nullptr && *last != 0) text += fmt::format(": {}", last);
    return {result == ncclRemoteError ? ErrorCode::kAborted : ErrorCode::kSystem, std::move(text)};
  }

  // Has NCCL begin something, and waits until it has begun: only then comes the next.
  template <typename Act>
  Status Call(const Act& act) {
    {
      const std::lock_guard lock(mutex_);
      if (comm_ == nullptr) return {ErrorCode::kAborted, std::string(Mesh::kEnded)};
      HVDRAY_RETURN_IF_ERROR(CheckNccl(act()));
    }
    return Settle();
  }

  Status Settle() {
    return Await([&]() -> Result<bool> {
      const std::lock_guard lock(mutex_);
      if (comm_ == nullptr) return Status(ErrorCode::kAborted, std::string(Mesh::kEnded));
      ncclResult_t state = ncclSuccess;
      HVDRAY_RETURN_IF_ERROR(CheckNccl(ncclCommGetAsyncError(comm_, &state)));
      HVDRAY_RETURN_IF_ERROR(CheckNccl(state));
      return state == ncclSuccess;
    });
  }

  // Waits for all that is in the stream.
  Status Finish() {
    HVDRAY_RETURN_IF_ERROR(CheckCuda(cudaEventRecord(done_, stream_)));
    return Await([&]() -> Result<bool> {
      const cudaError_t state = cudaEventQuery(done_);
      if (state != cudaSuccess && state != cudaErrorNotReady) return CheckCuda(state);
      const std::lock_guard lock(mutex_);
      // What was in the stream has ended then, too, without a result.
      if (comm_ == nullptr) return Status(ErrorCode::kAborted, std::string(Mesh::kEnded));
      if (state == cudaSuccess) return true;
      ncclResult_t error = ncclSuccess;
      HVDRAY_RETURN_IF_ERROR(CheckNccl(ncclCommGetAsyncError(comm_, &error)));
      HVDRAY_RETURN_IF_ERROR(CheckNccl(error));
      return false;
    });
  }

  // A rest takes 50 us more than it says, which is long beside most operations.
  template <typename Look>
  Status Await(const Look& is_done) {
    constexpr auto kShort = std::chrono::milliseconds(1);
    constexpr auto kLongestRest = std::chrono::microseconds(200);
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      HVDRAY_ASSIGN_OR_RETURN(const bool is_over, is_done());
      if (is_over) return {};
      const Duration waited = std::chrono::steady_clock::now() - start;
      if (waited < kShort) {
        std::this_thread::yield();
        continue;
      }
      HVDRAY_RETURN_IF_ERROR(CheckAlive());
      if (waited > timeout_) {
        return {ErrorCode::kDeadlineExceeded,
                fmt::format("not all of {} ranks came within {} s, or the GPU is slower", size(),
                            std::chrono::duration<double>(timeout_).count())};
      }
      std::this_thread::sleep_for(std::min<Duration>(waited / 16, kLongestRest));
    }
  }

  Status CheckAlive() {
    if (mesh_) HVDRAY_RETURN_IF_ERROR(mesh_->CheckAlive());
    return has_ended_ ? Status(ErrorCode::kAborted, std::string(Mesh::kEnded)) : Status();
  }

  // Ends it on all ranks. Returns `status`, or a rank that has died.
  Status Fail(Status status) {
    if (mesh_) {
      if (status.code() == ErrorCode::kAborted) mesh_->AwaitEnd(Mesh::kNewsTravels);
      mesh_->Abort(status.message());
    }
    has_ended_ = true;
    Drop();
    Status known = mesh_ ? mesh_->CheckAlive() : Status();
    if (status.code() != ErrorCode::kAborted || known.ok() || known.message() == Mesh::kEnded) {
      return status;
    }
    return known;
  }

  // Also ends what runs on the GPU.
  void Drop() {
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) (void)ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  void Leave() {
    const bool is_over =
        CheckAlive().ok() && Finish().ok() && Call([&] { return ncclCommFinalize(comm_); }).ok();
    if (!is_over) return Drop();
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) (void)ncclCommDestroy(comm_);
    comm_ = nullptr;
  }

  Status CopyHere(const void* from, void* to, size_t bytes) {
    if (from == to || bytes == 0) return {};
    return CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  }

  // What is in the stream may use the former one until cudaFree() returns.
  Result<char*> Scratch(size_t bytes) {
    if (scratch_bytes_ < bytes) {
      if (scratch_ != nullptr) HVDRAY_RETURN_IF_ERROR(CheckCuda(cudaFree(scratch_)));
      scratch_ = nullptr;
      scratch_bytes_ = 0;
      HVDRAY_RETURN_IF_ERROR(CheckCuda(cudaMalloc(&scratch_, bytes)));
      scratch_bytes_ = bytes;
    }
    return static_cast<char*>(scratch_);
  }

  Duration timeout_;
  int device_;
  bool reads_host_ = false;     // The GPU reads all memory of this process.
  std::shared_ptr<Mesh> mesh_;  // nullptr of one rank
  std::unique_ptr<Communicator> host_;
  std::atomic<bool> has_ended_{false};
  cudaStream_t stream_;
  bool is_queueing_;  // The program's stream: calls don't wait for it.
  cudaEvent_t done_ = nullptr;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // guarded by mutex_; nullptr before and after
};

Introduction Introduce(const CommunicatorOptions& options, int* device) {
  Introduction mine;
  const auto fail = [&mine](const std::string& why) {
    why.copy(mine.problem, sizeof(mine.problem) - 1);
    return mine;
  };
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    // CUDA's words for no driver at all are that it is too old.
    return fail(error == cudaErrorInsufficientDriver
                    ? "no NVIDIA driver, or an older one than this CUDA needs"
                    : fmt::format("no GPU: {}", cudaGetErrorString(error)));
  }
  if (devices == 0) return fail("no GPU is visible");
  *device = options.device % devices;
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, *device);
      error != cudaSuccess) {
    return fail(fmt::format("GPU {}: {}", *device, cudaGetErrorString(error)));
  }
  static_assert(sizeof(properties.uuid) == sizeof(mine.device));
  std::memcpy(mine.device, &properties.uuid, sizeof(mine.device));
  int version = 0;
  (void)ncclGetVersion(&version);
  mine.nccl_version = version;
  if (options.rank == 0) {
    const DeviceScope scope(*device);
    if (const ncclResult_t result = ncclGetUniqueId(&mine.id); result != ncclSuccess) {
      return fail(
          fmt::format("NCCL: {}: {}", ncclGetErrorString(result), ncclGetLastError(nullptr)));
    }
  }
  return mine;
}

// The same on all ranks, which have all the same introductions.
Status CheckIntroductions(std::span<const Introduction> ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].problem[0] != 0) {
      return {ErrorCode::kNotSupported, fmt::format("rank {}: {}", i, ranks[i].problem),
              "the backend nccl needs a GPU for each rank"};
    }
    if (ranks[i].nccl_version != ranks[0].nccl_version) {
      return {ErrorCode::kNotSupported,
              fmt::format("rank 0 has NCCL {}, rank {} NCCL {}", ranks[0].nccl_version, i,
                          ranks[i].nccl_version)};
    }
    for (size_t j = 0; j < i; ++j) {
      if (std::memcmp(ranks[i].device, ranks[j].device, sizeof(ranks[i].device)) != 0) continue;
      return {ErrorCode::kNotSupported, fmt::format("ranks {} and {} are on the same GPU", j, i),
              "start no more ranks on a host than it has GPUs"};
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Communicator>> MakeNcclCommunicator(const CommunicatorOptions& options,
                                                           std::shared_ptr<Mesh> mesh) {
  std::unique_ptr<Communicator> host = MakeSingleCommunicator();
  if (mesh) {
    std::vector<int> all(static_cast<size_t>(options.size));
    std::iota(all.begin(), all.end(), 0);
    host = MakeNetworkCommunicator(mesh, std::move(all));
  }
  int device = 0;
  const Introduction mine = Introduce(options, &device);
  std::vector<Introduction> ranks(static_cast<size_t>(options.size));
  HVDRAY_RETURN_IF_ERROR(host->AllGather(&mine, ranks.data(), sizeof mine, DataType::kUint8));
  HVDRAY_RETURN_IF_ERROR(CheckIntroductions(ranks));
  auto made = std::make_unique<NcclCommunicator>(options, device, std::move(mesh), std::move(host));
  HVDRAY_RETURN_IF_ERROR(made->Join(ranks[0].id));
  return std::unique_ptr<Communicator>(std::move(made));
}

}  // namespace hvdray
