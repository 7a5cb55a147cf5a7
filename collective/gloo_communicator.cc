// SPDX-License-Identifier: Apache-2.0
// The only file that knows Gloo. Its exceptions (gloo::EnforceNotMet is no gloo::Exception) end
// here.
#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <utility>

#include "collective/backends.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

// Gloo's three verbs over our store. Errors have to leave as exceptions here: Gloo is the caller.
class GlooStore : public gloo::rendezvous::Store {
 public:
  GlooStore(hvdray::Store& store, Duration timeout) : store_(store), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const Status status = store_.Set(key, std::string(data.begin(), data.end()));
    if (!status.ok()) throw gloo::Exception(status.message());
  }

  std::vector<char> get(const std::string& key) override {
    const Result<std::string> value = store_.Get(key, timeout_);
    if (!value.ok()) throw gloo::Exception(value.status().message());
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
  hvdray::Store& store_;
  Duration timeout_;
};

// Gloo's templates only want to know how large an element is: calls use(T{}) for a T of that size.
template <typename Use>
void WithElement(size_t bytes, const Use& use) {
  switch (bytes) {
    case 1:
      return use(uint8_t{});
    case 2:
      return use(uint16_t{});
    case 4:
      return use(uint32_t{});
    default:
      return use(uint64_t{});
  }
}

// Gloo takes its input by a pointer to non-const but only reads it.
template <typename T>
T* InputOf(const Operation& operation) {
  return const_cast<T*>(static_cast<const T*>(operation.send));  // NOLINT
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<gloo::Context> context, Duration timeout)
      : Communicator(context->rank, context->size),
        context_(std::move(context)),
        timeout_(std::chrono::duration_cast<std::chrono::milliseconds>(timeout)) {}

  std::string_view backend() const override { return "gloo"; }

  // Ends the operations of the peers, too: theirs fail when their connections do, so they close
  // theirs, until all know.
  void Abort() override {
    if (is_aborted_.exchange(true)) return;
    try {
      context_->closeConnections();
    } catch (const std::exception&) {  // They are broken already.
    }
  }

 private:
  Status Execute(const Operation& operation) override {
    if (is_aborted_) {
      return {ErrorCode::kAborted, fmt::format("the communicator of {} ranks has ended", size())};
    }
    try {
      Call(operation);
      return {};
    } catch (const std::exception& error) {
      const bool was_aborted = is_aborted_;
      Abort();
      const bool is_timeout = !was_aborted && std::strstr(error.what(), "Timed out") != nullptr;
      return {is_timeout ? ErrorCode::kDeadlineExceeded : ErrorCode::kAborted,
              fmt::format("{} of {} ranks: {}", NameOf(operation.kind), size(), error.what())};
    }
  }

  void Call(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    switch (operation.kind) {
      case Collective::kAllReduce:
        if (operation.count == 0) return;
        return WithElement(element, [&](auto t) { AllReduceOf<decltype(t)>(operation); });
      case Collective::kReduce:
        if (operation.count == 0) return;
        return WithElement(element, [&](auto t) { ReduceOf<decltype(t)>(operation); });
      case Collective::kBroadcast:
        if (operation.count == 0) return;
        return BroadcastOf(operation);
      case Collective::kAllGather:
        return AllGatherOf(operation);
      case Collective::kReduceScatter:
        if (operation.count == 0) return;
        return ReduceScatterOf(operation);
      case Collective::kAllToAll:
        return AllToAllOf(operation);
      case Collective::kGather:
        if (operation.count == 0) return;
        return GatherOf(operation);
      case Collective::kScatter:
        if (operation.count == 0) return;
        return ScatterOf(operation);
      case Collective::kBarrier:
        return BarrierOf();
      case Collective::kSend: {
        if (operation.count == 0) return;
        auto buffer =
            context_->createUnboundBuffer(InputOf<char>(operation), operation.count * element);
        buffer->send(operation.root, kMessageSlot);
        buffer->waitSend(timeout_);
        return;
      }
      case Collective::kRecv: {
        if (operation.count == 0) return;
        auto buffer = context_->createUnboundBuffer(operation.recv, operation.count * element);
        buffer->recv(operation.root, kMessageSlot);
        buffer->waitRecv(timeout_);
        return;
      }
    }
  }

  // Combines two of Gloo's buffers.
  static std::function<void(void*, const void*, const void*, size_t)> Combine(
      const Operation& operation) {
    return [reduce = FindReduce(operation.dtype, operation.op)](void* dst, const void* a,
                                                                const void* b, size_t count) {
      const void* sources[] = {a, b};
      reduce(sources, 2, dst, count, 1);
    };
  }

  void Divide(const Operation& operation) {
    if (operation.op != ReduceOp::kAverage) return;
    const void* sources[] = {operation.recv};
    FindReduce(operation.dtype, operation.op)(sources, 1, operation.recv, operation.count, size());
  }

  template <typename T>
  void AllReduceOf(const Operation& operation) {
    gloo::AllreduceOptions options(context_);
    if (operation.send != operation.recv) {
      options.setInput(InputOf<T>(operation), operation.count);
    }
    options.setOutput(static_cast<T*>(operation.recv), operation.count);
    options.setReduceFunction(Combine(operation));
    options.setTimeout(timeout_);
    gloo::allreduce(options);
    Divide(operation);
  }

  template <typename T>
  void ReduceOf(const Operation& operation) {
    // Gloo wants room for partial results on all ranks.
    const bool is_root = rank() == operation.root;
    std::vector<T> partial(is_root ? 0 : operation.count);
    T* output = is_root ? static_cast<T*>(operation.recv) : partial.data();
    gloo::ReduceOptions options(context_);
    if (operation.send != output) options.setInput(InputOf<T>(operation), operation.count);
    options.setOutput(output, operation.count);
    options.setReduceFunction(Combine(operation));
    options.setRoot(operation.root);
    options.setTimeout(timeout_);
    gloo::reduce(options);
    if (is_root) Divide(operation);
  }

  // What Gloo has not: n - 1 steps round the ring, in each of which a partial sum goes to the next
  // rank, which adds its own. (n - 1) / n of the buffer are sent.
  void ReduceScatterOf(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    const auto ranks = static_cast<size_t>(size());
    const auto me = static_cast<size_t>(rank());
    const auto* send = static_cast<const char*>(operation.send);
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    std::vector<char> outgoing(bytes);
    std::vector<char> incoming(bytes);
    auto out = context_->createUnboundBuffer(outgoing.data(), bytes);
    auto in = context_->createUnboundBuffer(incoming.data(), bytes);
    const auto next = static_cast<int>((me + 1) % ranks);
    const auto previous = static_cast<int>((me + ranks - 1) % ranks);
    std::memcpy(outgoing.data(), send + (me + ranks - 1) % ranks * bytes, bytes);
    for (size_t step = 1; step < ranks; ++step) {
      in->recv(previous, kScatterSlot);
      out->send(next, kScatterSlot);
      in->waitRecv(timeout_);
      out->waitSend(timeout_);
      const size_t piece = (me + 2 * ranks - 1 - step) % ranks;
      const void* sources[] = {incoming.data(), send + piece * bytes};
      const bool is_last = step + 1 == ranks;
      reduce(sources, 2, is_last ? operation.recv : outgoing.data(), operation.count, 1);
    }
    Divide(operation);
  }

  void BroadcastOf(const Operation& operation) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<uint8_t*>(operation.recv),
                      operation.count * SizeOf(operation.dtype));
    options.setRoot(operation.root);
    options.setTimeout(timeout_);
    gloo::broadcast(options);
  }

  void AllGatherOf(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const BufferBytes bytes = BytesOf(operation, rank(), size());
    if (bytes.recv == 0) return;
    const bool is_in_place =
        operation.send == static_cast<char*>(operation.recv) + InPlaceOffset(operation, rank());
    if (operation.recv_counts.empty()) {
      gloo::AllgatherOptions options(context_);
      if (!is_in_place) options.setInput(InputOf<uint8_t>(operation), bytes.send);
      options.setOutput(static_cast<uint8_t*>(operation.recv), bytes.recv);
      options.setTimeout(timeout_);
      gloo::allgather(options);
      return;
    }
    std::vector<size_t> sizes;
    for (const size_t count : operation.recv_counts) sizes.push_back(count * element);
    gloo::AllgathervOptions options(context_);
    if (!is_in_place) options.setInput(InputOf<uint8_t>(operation), bytes.send);
    options.setOutput(static_cast<uint8_t*>(operation.recv), sizes);
    options.setTimeout(timeout_);
    gloo::allgatherv(options);
  }

  void AllToAllOf(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const BufferBytes bytes = BytesOf(operation, rank(), size());
    // In place, what is still to be sent would be overwritten.
    std::vector<uint8_t> copy;
    uint8_t* input = InputOf<uint8_t>(operation);
    if (operation.send == operation.recv) {
      copy.assign(input, input + bytes.send);
      input = copy.data();
    }
    if (operation.send_counts.empty()) {
      if (operation.count == 0) return;
      gloo::AlltoallOptions options(context_);
      options.setInput(input, bytes.send);
      options.setOutput(static_cast<uint8_t*>(operation.recv), bytes.recv);
      options.setTimeout(timeout_);
      gloo::alltoall(options);
      return;
    }
    const auto sizes = [element](std::span<const size_t> counts) {
      std::vector<int64_t> result;
      for (const size_t count : counts) result.push_back(static_cast<int64_t>(count * element));
      return result;
    };
    gloo::AlltoallvOptions options(context_);
    options.setInput(input, sizes(operation.send_counts));
    options.setOutput(static_cast<uint8_t*>(operation.recv), sizes(operation.recv_counts));
    options.setTimeout(timeout_);
    gloo::alltoallv(options);
  }

  void GatherOf(const Operation& operation) {
    const BufferBytes bytes = BytesOf(operation, rank(), size());
    gloo::GatherOptions options(context_);
    options.setInput(InputOf<uint8_t>(operation), bytes.send);
    if (bytes.recv > 0) options.setOutput(static_cast<uint8_t*>(operation.recv), bytes.recv);
    options.setRoot(operation.root);
    options.setTimeout(timeout_);
    gloo::gather(options);
  }

  void ScatterOf(const Operation& operation) {
    const BufferBytes bytes = BytesOf(operation, rank(), size());
    gloo::ScatterOptions options(context_);
    std::vector<uint8_t*> inputs;
    for (int peer = 0; bytes.send > 0 && peer < size(); ++peer) {
      inputs.push_back(InputOf<uint8_t>(operation) + static_cast<size_t>(peer) * bytes.recv);
    }
    if (!inputs.empty()) options.setInputs(inputs, bytes.recv);
    options.setOutput(static_cast<uint8_t*>(operation.recv), bytes.recv);
    options.setRoot(operation.root);
    options.setTimeout(timeout_);
    gloo::scatter(options);
  }

  void BarrierOf() {
    gloo::BarrierOptions options(context_);
    options.setTimeout(timeout_);
    gloo::barrier(options);
  }

  // Gloo's own slots have a small number in their upper byte.
  static constexpr uint64_t kMessageSlot = uint64_t{0xF0} << 56;
  static constexpr uint64_t kScatterSlot = uint64_t{0xF1} << 56;

  std::shared_ptr<gloo::Context> context_;
  std::chrono::milliseconds timeout_;
  std::atomic<bool> is_aborted_{false};
};

// Gloo writes to its peers with plain write(2), also from a thread of its own: without this a peer
// that dies may take us along before there is an error to return.
void IgnoreSigpipe() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

Result<std::unique_ptr<Communicator>> MakeGlooCommunicator(const CommunicatorOptions& options,
                                                           Store& store) {
  IgnoreSigpipe();
  try {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    GlooStore gloo_store(store, options.timeout);
    auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout));
    context->connectFullMesh(gloo_store, device);
    auto communicator = std::make_unique<GlooCommunicator>(std::move(context), options.timeout);
    // Everybody has read everybody's key once all are here; then the keys can go (Horovod does the
    // same).
    HVDRAY_RETURN_IF_ERROR(communicator->Barrier());
    HVDRAY_RETURN_IF_ERROR(store.Delete(std::to_string(options.rank)));
    return std::unique_ptr<Communicator>(std::move(communicator));
  } catch (const std::exception& error) {
    return Status(ErrorCode::kAborted, error.what());
  }
}

}  // namespace hvdray
