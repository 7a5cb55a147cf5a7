// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

bool IsMetric(const Json& value) {
  if (!value.is_object()) return value.is_primitive();
  return std::all_of(value.begin(), value.end(), IsMetric);
}

}  // namespace

struct WorkerChannels::Channel {
  Channel(WorkerChannels& owner, int name)
      : worker(name),
        reader({[this, &owner](std::string_view type, const Json& head, uint64_t size) {
                  return owner.OnMessage(*this, type, head, size);
                },
                [this, &owner](ByteView piece, uint64_t left) {
                  const uint64_t end = blob - left;
                  owner.handlers_.on_data(worker, data, piece, end - piece.size(), blob);
                  return Status();
                }}) {}

  const int worker;
  MessageReader reader;
  Json data;          // of the message whose blob comes
  uint64_t blob = 0;  // its size
  bool is_greeted = false;
  uint32_t reports = 0;
};

WorkerChannels::WorkerChannels(Handlers handlers) : handlers_(std::move(handlers)) {}

WorkerChannels::~WorkerChannels() = default;

void WorkerChannels::Clear() { channels_.clear(); }

void WorkerChannels::End(int worker) { channels_.erase(worker); }

void WorkerChannels::Feed(int worker, ByteView bytes) {
  std::unique_ptr<Channel>& channel = channels_[worker];
  if (!channel) channel = std::make_unique<Channel>(*this, worker);
  if (Status status = channel->reader.Feed(bytes); !status.ok()) {
    handlers_.on_violation(worker, status);
  }
}

Status WorkerChannels::OnMessage(Channel& channel, std::string_view type, const Json& head,
                                 uint64_t blob) {
  if (type == "data") {
    channel.data = head.value("data", Json());
    channel.blob = blob;
    if (blob == 0) handlers_.on_data(channel.worker, channel.data, {}, 0, 0);
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
  handlers_.on_hello(channel.worker, head);
  return {};
}

Status WorkerChannels::OnReport(Channel& channel, const Json& head) {
  const auto metrics = head.find("metrics");
  if (metrics == head.end()) return {ErrorCode::kProtocolError, "\"report\" without \"metrics\""};
  if (Status status = CheckMetrics(*metrics); !status.ok()) return status;
  handlers_.on_report(channel.worker, ++channel.reports, *metrics);
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

LastError ChannelError(const Status& why) {
  return {.text = fmt::format("broken channel: {}", why.message())};
}

std::string ChannelFaultText(std::string_view who, const Status& why) {
  return fmt::format("{} broke the rules of its channel and is killed: {}", who, why.message());
}

}  // namespace hvdray
