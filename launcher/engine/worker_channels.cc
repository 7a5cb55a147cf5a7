// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/text.h"
#include "wire/frame.h"

namespace hvdray {
namespace {

bool IsMetric(const Json& value) {
  if (!value.is_object()) return value.is_primitive();
  return std::all_of(value.begin(), value.end(), IsMetric);
}

}  // namespace

struct WorkerChannels::Channel {
  Channel(WorkerChannels& channels, int name)
      : worker(name),
        reader({[this, &channels](std::string_view type, const Json& head, uint64_t size) {
                  return channels.OnMessage(*this, type, head, size);
                },
                [this, &channels](ByteView piece, uint64_t left) {
                  const uint64_t end = blob - left;
                  channels.owner_.OnData(worker, data, piece, end - piece.size(), blob);
                  return Status();
                }}) {}

  const int worker;
  MessageReader reader;
  Json data;          // of the message whose blob comes
  uint64_t blob = 0;  // its size
  bool is_greeted = false;
  uint32_t reports = 0;
  struct Item {
    std::shared_ptr<const std::string> bytes;  // null: an object
    int64_t object = 0;
  };
  std::deque<Item> queue;
  size_t sent_of_first = 0;
  uint64_t credit = wire::kOutputWindowBytes;
  bool is_dropped = false;
};

WorkerChannels::WorkerChannels(Owner& owner) : owner_(owner) {}

WorkerChannels::~WorkerChannels() = default;

void WorkerChannels::Take(const wire::Output& output) {
  const int worker = output.rank;
  Feed(worker, output.bytes);
  if (output.is_end) End(worker);
  const auto bytes = static_cast<uint32_t>(output.bytes.size());
  if (bytes == 0) return;
  if (owner_.HasRoom()) {
    owner_.GrantRead(worker, bytes);
  } else {
    withheld_[worker] += bytes;
  }
}

void WorkerChannels::GrantWithheld() {
  for (const auto& [worker, bytes] : std::exchange(withheld_, {})) owner_.GrantRead(worker, bytes);
}

void WorkerChannels::Clear() {
  channels_.clear();
  withheld_.clear();
  queued_bytes_ = 0;
  DropObjects();
}

void WorkerChannels::End(int worker) {
  Drop(worker);
  channels_.erase(worker);
}

WorkerChannels::Channel& WorkerChannels::ChannelOf(int worker) {
  std::unique_ptr<Channel>& channel = channels_[worker];
  if (!channel) channel = std::make_unique<Channel>(*this, worker);
  return *channel;
}

void WorkerChannels::Feed(int worker, ByteView bytes) {
  if (Status status = ChannelOf(worker).reader.Feed(bytes); !status.ok()) {
    owner_.OnViolation(worker, status);
  }
}

void WorkerChannels::Write(int worker, std::shared_ptr<const std::string> bytes) {
  Channel& channel = ChannelOf(worker);
  if (channel.is_dropped) return;
  queued_bytes_ += bytes->size();
  channel.queue.push_back({.bytes = std::move(bytes)});
  Flush(channel);
}

void WorkerChannels::Give(int worker, int64_t object) {
  Channel& channel = ChannelOf(worker);
  if (channel.is_dropped) return;
  channel.queue.push_back({.bytes = nullptr, .object = object});
  Flush(channel);
}

void WorkerChannels::DropObject(int64_t object) {
  dropping_.insert(object);
  DropObjects();
}

bool WorkerChannels::IsWaitedFor(int64_t object) const {
  return std::any_of(channels_.begin(), channels_.end(), [object](const auto& one) {
    const std::deque<Channel::Item>& queue = one.second->queue;
    return std::any_of(queue.begin(), queue.end(), [object](const Channel::Item& item) {
      return !item.bytes && item.object == object;
    });
  });
}

void WorkerChannels::DropObjects() {
  for (auto at = dropping_.begin(); at != dropping_.end();) {
    if (IsWaitedFor(*at)) {
      ++at;
    } else {
      owner_.OnDropped(*at);
      at = dropping_.erase(at);
    }
  }
}

void WorkerChannels::AddCredit(int worker, uint32_t bytes) {
  Channel& channel = ChannelOf(worker);
  channel.credit = std::min<uint64_t>(channel.credit + bytes, wire::kOutputWindowBytes);
  Flush(channel);
}

void WorkerChannels::Drop(int worker) {
  Channel& channel = ChannelOf(worker);
  channel.is_dropped = true;
  for (const Channel::Item& item : std::exchange(channel.queue, {})) {
    if (item.bytes) queued_bytes_ -= item.bytes->size();
  }
  queued_bytes_ += std::exchange(channel.sent_of_first, 0);
  DropObjects();
}

void WorkerChannels::Flush(Channel& channel) {
  while (!channel.queue.empty()) {
    if (!channel.queue.front().bytes) {
      const int64_t object = channel.queue.front().object;
      channel.queue.pop_front();
      owner_.SendObject(channel.worker, object);
      DropObjects();
      continue;
    }
    if (channel.credit == 0) return;
    const std::string& first = *channel.queue.front().bytes;
    const size_t size = std::min<uint64_t>(
        {first.size() - channel.sent_of_first, channel.credit, wire::kMaxOutput});
    wire::Stdin frame;
    frame.rank = channel.worker;
    frame.stream = wire::StreamId::kChannel;
    frame.bytes = first.substr(channel.sent_of_first, size);
    channel.credit -= size;
    queued_bytes_ -= size;
    channel.sent_of_first += size;
    if (channel.sent_of_first == first.size()) {
      channel.queue.pop_front();
      channel.sent_of_first = 0;
    }
    owner_.SendBytes(channel.worker, std::move(frame));
  }
}

Status WorkerChannels::OnMessage(Channel& channel, std::string_view type, const Json& head,
                                 uint64_t blob) {
  if (type == "data") {
    channel.data = head.value("data", Json());
    channel.blob = blob;
    if (blob == 0) owner_.OnData(channel.worker, channel.data, {}, 0, 0);
    return {};
  }
  if (blob > 0) {
    return {ErrorCode::kProtocolError, fmt::format("\"{}\" has no blob", ShownText(type))};
  }
  if (type == "report") return OnReport(channel, head);
  if (type != "hello") {
    return {ErrorCode::kProtocolError, fmt::format("no type \"{}\"", ShownText(type))};
  }
  if (std::exchange(channel.is_greeted, true)) {
    return {ErrorCode::kProtocolError, "a second \"hello\""};
  }
  if (head.value("protocol", Json()) != kChannelProtocol) {
    return {ErrorCode::kProtocolError,
            fmt::format("\"hello\" must have \"protocol\": {}", kChannelProtocol)};
  }
  owner_.OnHello(channel.worker, head);
  return {};
}

Status WorkerChannels::OnReport(Channel& channel, const Json& head) {
  const auto metrics = head.find("metrics");
  if (metrics == head.end()) return {ErrorCode::kProtocolError, "\"report\" without \"metrics\""};
  if (Status status = CheckMetrics(*metrics); !status.ok()) return status;
  owner_.OnReport(channel.worker, ++channel.reports, *metrics);
  return {};
}

Status CheckMetrics(const Json& metrics) {
  if (!metrics.is_object() || !IsMetric(metrics)) {
    return {ErrorCode::kProtocolError,
            "metrics must be an object of numbers, texts, booleans, nulls and such objects"};
  }
  if (DumpJson(metrics).size() > kMaxMetricsBytes) {
    return {ErrorCode::kProtocolError, "metrics of over 64 KiB"};
  }
  return {};
}

std::shared_ptr<const std::string> EndMessage(Duration grace) {
  Json end;
  end["type"] = "end";
  end["grace_s"] = Seconds(grace).count();
  return std::make_shared<const std::string>(MessageLine(end));
}

LastError ChannelError(const Status& why) {
  return {.text = fmt::format("broken channel: {}", why.message())};
}

std::string ChannelFaultText(std::string_view who, const Status& why) {
  return fmt::format("{} broke the rules of its channel and is killed: {}", who, why.message());
}

}  // namespace hvdray
