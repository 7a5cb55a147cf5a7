// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_inputs.h"

#include <cstdint>

#include "base/json.h"
#include "base/message_stream.h"

namespace hvdray {

using wire::StreamId;

void WorkerInputs::Expect(int worker, StreamId stream) {
  pumps_.try_emplace({worker, stream}, loop_, [this, worker, stream](uint32_t bytes) {
    grant_(wire::Credit{worker, stream, bytes});
  });
}

void WorkerInputs::Open(int worker, StreamId stream, UniqueFd fd) {
  Expect(worker, stream);
  pumps_.at({worker, stream}).Open(std::move(fd));
}

void WorkerInputs::Close(int worker) {
  for (const StreamId stream : {StreamId::kStdin, StreamId::kChannel}) {
    if (const auto pump = pumps_.find({worker, stream}); pump != pumps_.end()) pump->second.Close();
  }
}

Status WorkerInputs::Write(wire::Stdin input) {
  const bool is_channel = input.stream == StreamId::kChannel;
  const auto pump = pumps_.find({input.rank, is_channel ? StreamId::kChannel : StreamId::kStdin});
  if (pump != pumps_.end()) return pump->second.Write(std::move(input.bytes), input.is_end);
  if (!input.bytes.empty()) {
    grant_(wire::Credit{input.rank, input.stream, static_cast<uint32_t>(input.bytes.size())});
  }
  return {};
}

void WorkerInputs::Give(int worker, int64_t object, ObjectStore::View view) {
  const auto pump = pumps_.find({worker, StreamId::kChannel});
  if (pump == pumps_.end()) return;
  Json message;
  message["type"] = "object";
  message["object"] = object;
  message["size"] = view.size;
  pump->second.WriteWithDescriptor(MessageLine(message), std::move(view.fd));
}

}  // namespace hvdray
