// SPDX-License-Identifier: Apache-2.0
// hvdray.h over Communicator: no exception leaves, an error becomes its number and a line.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "collective/c_error.h"
#include "collective/communicator.h"
#include "collective/hvdray.h"
#include "collective/work_queue.h"

struct hvdray_communicator {
  std::unique_ptr<hvdray::Communicator> communicator;
  std::string backend;
  // Made when an operation is first started; gone before the communicator.
  std::unique_ptr<hvdray::WorkQueue> queue;
};

struct hvdray_work {
  explicit hvdray_work(hvdray::Work started) : work(std::move(started)) {}
  hvdray::Work work;
};

namespace hvdray {
namespace {

static_assert(static_cast<int>(DataType::kFloat64) == HVDRAY_FLOAT64);
static_assert(static_cast<int>(DataType::kUint8) == HVDRAY_UINT8);
static_assert(static_cast<int>(ReduceOp::kBitXor) == HVDRAY_BIT_XOR);
static_assert(static_cast<int>(ReduceOp::kMin) == HVDRAY_MIN);

thread_local std::string last_error;

int Init(const char* name, std::optional<std::span<const int>> members,
         hvdray_communicator** communicator) {
  return ReportedToC([&]() -> Status {
    HVDRAY_ASSIGN_OR_RETURN(
        CommunicatorOptions options,
        CommunicatorOptionsFrom(Environment::FromProcess(), name != nullptr ? name : ""));
    auto made = std::make_unique<hvdray_communicator>();
    if (members) {
      HVDRAY_ASSIGN_OR_RETURN(made->communicator, MakeSubCommunicator(options, *members));
    } else {
      HVDRAY_ASSIGN_OR_RETURN(made->communicator, MakeCommunicator(options));
    }
    made->backend = made->communicator->backend();
    *communicator = made.release();
    return {};
  });
}

using Body = std::function<Status(Communicator&)>;

int Do(hvdray_communicator* communicator, hvdray_work** work, Body body) {
  return ReportedToC([&]() -> Status {
    if (work == nullptr && !communicator->queue) return body(*communicator->communicator);
    if (!communicator->queue) {
      communicator->queue = std::make_unique<WorkQueue>(*communicator->communicator);
    }
    const Work started = communicator->queue->Start(std::move(body));
    if (work == nullptr) return started.Wait();
    *work = std::make_unique<hvdray_work>(started).release();
    return {};
  });
}

// What C passes may be any number.
Status Check(hvdray_type type, hvdray_op op = HVDRAY_SUM) {
  if (type < HVDRAY_INT8 || type > HVDRAY_FLOAT64) {
    return {ErrorCode::kUsage, "no type " + std::to_string(type)};
  }
  if (op < HVDRAY_SUM || op > HVDRAY_BIT_XOR) {
    return {ErrorCode::kUsage, "no operation " + std::to_string(op)};
  }
  return {};
}

int Start(hvdray_communicator* communicator, hvdray_work** work, Collective kind, const void* send,
          void* recv, size_t count, hvdray_type type, hvdray_op op = HVDRAY_SUM, int root = 0) {
  if (Status status = Check(type, op); !status.ok()) return ReportToC(status);
  Operation operation{kind, send, recv, count};
  operation.dtype = static_cast<DataType>(type);
  operation.op = static_cast<ReduceOp>(op);
  operation.root = root;
  return Do(communicator, work, [operation](Communicator& c) { return c.Run(operation); });
}

std::vector<size_t> CountsOf(const hvdray_communicator* communicator, const size_t* counts) {
  if (counts == nullptr) return {};
  return {counts, counts + communicator->communicator->size()};
}

}  // namespace

int ReportToC(const Status& status) {
  if (status.ok()) return 0;
  last_error = status.ToString();
  return static_cast<int>(status.code());
}

}  // namespace hvdray

using hvdray::Collective;
using hvdray::Communicator;
using hvdray::DataType;

int hvdray_init(const char* name, hvdray_communicator** communicator) {
  return hvdray::Init(name, std::nullopt, communicator);
}

int hvdray_init_some(const char* name, const int* members, size_t count,
                     hvdray_communicator** communicator) {
  return hvdray::Init(name, std::span(members, count), communicator);
}

void hvdray_free(hvdray_communicator* communicator) {
  const std::unique_ptr<hvdray_communicator> owned(communicator);
}

int hvdray_rank(const hvdray_communicator* communicator) {
  return communicator->communicator->rank();
}

int hvdray_size(const hvdray_communicator* communicator) {
  return communicator->communicator->size();
}

const char* hvdray_backend(const hvdray_communicator* communicator) {
  return communicator->backend.c_str();
}

int hvdray_all_reduce(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                      hvdray_type type, hvdray_op op, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kAllReduce, send, recv, count, type, op);
}

int hvdray_group_all_reduce(hvdray_communicator* communicator, const hvdray_tensor* tensors,
                            size_t tensor_count, hvdray_type type, hvdray_op op,
                            hvdray_work** work) {
  if (hvdray::Status status = hvdray::Check(type, op); !status.ok()) {
    return hvdray::ReportToC(status);
  }
  std::vector<hvdray::Tensor> group;
  for (size_t i = 0; i < tensor_count; ++i) group.push_back({tensors[i].data, tensors[i].count});
  return hvdray::Do(communicator, work, [group = std::move(group), type, op](Communicator& c) {
    return c.GroupAllReduce(group, static_cast<DataType>(type), static_cast<hvdray::ReduceOp>(op));
  });
}

int hvdray_reduce(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                  hvdray_type type, hvdray_op op, int root, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kReduce, send, recv, count, type, op, root);
}

int hvdray_broadcast(hvdray_communicator* communicator, void* buffer, size_t count,
                     hvdray_type type, int root, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kBroadcast, buffer, buffer, count, type,
                       HVDRAY_SUM, root);
}

int hvdray_all_gather(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                      hvdray_type type, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kAllGather, send, recv, count, type);
}

int hvdray_all_gather_v(hvdray_communicator* communicator, const void* send, void* recv,
                        const size_t* counts, hvdray_type type, hvdray_work** work) {
  if (hvdray::Status status = hvdray::Check(type); !status.ok()) return hvdray::ReportToC(status);
  return hvdray::Do(communicator, work,
                    [=, all = hvdray::CountsOf(communicator, counts)](Communicator& c) {
                      return c.AllGatherV(send, recv, all, static_cast<DataType>(type));
                    });
}

int hvdray_reduce_scatter(hvdray_communicator* communicator, const void* send, void* recv,
                          size_t count, hvdray_type type, hvdray_op op, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kReduceScatter, send, recv, count, type, op);
}

int hvdray_all_to_all(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                      hvdray_type type, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kAllToAll, send, recv, count, type);
}

int hvdray_all_to_all_v(hvdray_communicator* communicator, const void* send,
                        const size_t* send_counts, void* recv, const size_t* recv_counts,
                        hvdray_type type, hvdray_work** work) {
  if (hvdray::Status status = hvdray::Check(type); !status.ok()) return hvdray::ReportToC(status);
  return hvdray::Do(communicator, work,
                    [=, out = hvdray::CountsOf(communicator, send_counts),
                     in = hvdray::CountsOf(communicator, recv_counts)](Communicator& c) {
                      return c.AllToAllV(send, out, recv, in, static_cast<DataType>(type));
                    });
}

int hvdray_gather(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                  hvdray_type type, int root, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kGather, send, recv, count, type, HVDRAY_SUM,
                       root);
}

int hvdray_scatter(hvdray_communicator* communicator, const void* send, void* recv, size_t count,
                   hvdray_type type, int root, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kScatter, send, recv, count, type,
                       HVDRAY_SUM, root);
}

int hvdray_barrier(hvdray_communicator* communicator, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kBarrier, nullptr, nullptr, 0, HVDRAY_UINT8);
}

int hvdray_send(hvdray_communicator* communicator, const void* buffer, size_t count,
                hvdray_type type, int peer, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kSend, buffer, nullptr, count, type,
                       HVDRAY_SUM, peer);
}

int hvdray_recv(hvdray_communicator* communicator, void* buffer, size_t count, hvdray_type type,
                int peer, hvdray_work** work) {
  return hvdray::Start(communicator, work, Collective::kRecv, nullptr, buffer, count, type,
                       HVDRAY_SUM, peer);
}

int hvdray_is_done(const hvdray_work* work) { return work->work.IsDone() ? 1 : 0; }

int hvdray_wait(hvdray_work* work) {
  const std::unique_ptr<hvdray_work> owned(work);
  return hvdray::ReportToC(owned->work.Wait());
}

void hvdray_abort(hvdray_communicator* communicator) { communicator->communicator->Abort(); }

const char* hvdray_error() { return hvdray::last_error.c_str(); }
