// SPDX-License-Identifier: Apache-2.0
// The only file that knows Gloo. Its exceptions (gloo::EnforceNotMet is no gloo::Exception) end
// here.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "collective/communicator.h"
#include "collective/store.h"

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

template <typename T>
using ReduceFn = void (*)(void*, const void*, const void*, size_t);

template <typename T>
ReduceFn<T> ReduceFunction(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return &gloo::sum<T>;
    case ReduceOp::kProduct:
      return &gloo::product<T>;
    case ReduceOp::kMin:
      return &gloo::min<T>;
    case ReduceOp::kMax:
      return &gloo::max<T>;
  }
  return &gloo::sum<T>;
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<gloo::Context> context, Duration timeout)
      : context_(std::move(context)),
        timeout_(std::chrono::duration_cast<std::chrono::milliseconds>(timeout)) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  Status AllReduce(const void* send, void* recv, size_t count, DataType dtype,
                   ReduceOp op) override {
    if (count == 0) return {};
    switch (dtype) {
      case DataType::kUint8:
        return Reduce<uint8_t>(send, recv, count, op);
      case DataType::kInt32:
        return Reduce<int32_t>(send, recv, count, op);
      case DataType::kInt64:
        return Reduce<int64_t>(send, recv, count, op);
      case DataType::kFloat32:
        return Reduce<float>(send, recv, count, op);
      case DataType::kFloat64:
        return Reduce<double>(send, recv, count, op);
    }
    return {ErrorCode::kNotSupported, "all-reduce: unknown data type"};
  }

  Status Broadcast(void* buffer, size_t count, DataType dtype, int root) override {
    if (root < 0 || root >= size()) {
      return {ErrorCode::kUsage, fmt::format("broadcast: root {} of {} ranks", root, size())};
    }
    if (count == 0) return {};
    return Guard("broadcast", [&] {
      gloo::BroadcastOptions options(context_);
      options.setOutput(static_cast<uint8_t*>(buffer), count * SizeOf(dtype));
      options.setRoot(root);
      options.setTimeout(timeout_);
      gloo::broadcast(options);
    });
  }

  Status Barrier() override {
    return Guard("barrier", [&] {
      gloo::BarrierOptions options(context_);
      options.setTimeout(timeout_);
      gloo::barrier(options);
    });
  }

 private:
  template <typename T>
  Status Reduce(const void* send, void* recv, size_t count, ReduceOp op) {
    return Guard("all-reduce", [&] {
      gloo::AllreduceOptions options(context_);
      if (send != recv) {
        // Gloo takes its input by a pointer to non-const but only reads it.
        options.setInput(const_cast<T*>(static_cast<const T*>(send)), count);  // NOLINT
      }
      options.setOutput(static_cast<T*>(recv), count);
      options.setReduceFunction(ReduceFunction<T>(op));
      options.setTimeout(timeout_);
      gloo::allreduce(options);
    });
  }

  template <typename Function>
  Status Guard(const char* operation, const Function& function) {
    try {
      function();
      return {};
    } catch (const std::exception& error) {
      const bool is_timeout = std::strstr(error.what(), "Timed out") != nullptr;
      return {is_timeout ? ErrorCode::kDeadlineExceeded : ErrorCode::kAborted,
              fmt::format("{} of {} ranks: {}", operation, size(), error.what())};
    }
  }

  std::shared_ptr<gloo::Context> context_;
  std::chrono::milliseconds timeout_;
};

// One process has nobody to talk to, and no rendezvous either.
class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status AllReduce(const void* send, void* recv, size_t count, DataType dtype,
                   ReduceOp /*op*/) override {
    if (send != recv && count > 0) std::memcpy(recv, send, count * SizeOf(dtype));
    return {};
  }
  Status Broadcast(void* /*buffer*/, size_t /*count*/, DataType /*dtype*/, int root) override {
    return root == 0 ? Status() : Status(ErrorCode::kUsage, "broadcast: root is not rank 0 of 1");
  }
  Status Barrier() override { return {}; }
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

Result<std::unique_ptr<Communicator>> MakeGlooCommunicator(const CommunicatorOptions& options) {
  if (options.size == 1) return std::unique_ptr<Communicator>(new SingleCommunicator());
  IgnoreSigpipe();
  try {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    Store store(options.rendezvous_host, options.rendezvous_port, options.scope);
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
    return Status(ErrorCode::kAborted, fmt::format("rank {} of {} could not join: {}", options.rank,
                                                   options.size, error.what()));
  }
}

}  // namespace hvdray
