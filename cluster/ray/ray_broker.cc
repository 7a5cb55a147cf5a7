// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_broker.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxShown = 120;  // of an invalid line

}  // namespace

RayBroker::RayBroker(std::unique_ptr<ByteStream> stream, Handlers handlers)
    : stream_(std::move(stream)), handlers_(std::move(handlers)) {}

void RayBroker::Start() { stream_->Start(*this); }

void RayBroker::OnData(ByteView bytes) {
  while (!is_closed_) {
    const size_t end = bytes.find('\n');
    const ByteView part = bytes.substr(0, end);
    if (line_.size() + part.size() > kMaxBrokerLine) {
      return Close({ErrorCode::kProtocolError,
                    fmt::format("a line of over {} bytes from ray_driver.py", kMaxBrokerLine)});
    }
    line_ += part;
    if (end == ByteView::npos) return;
    bytes.remove_prefix(end + 1);
    const Status status = OnLine(std::exchange(line_, {}));
    if (!status.ok()) return Close(status);
  }
}

Status RayBroker::OnLine(const std::string& line) {
  Result<BrokerEvent> event = ParseBrokerEvent(line);
  if (event.ok() && std::holds_alternative<BrokerHello>(*event) == has_hello_) {
    event = Status(ErrorCode::kProtocolError, has_hello_ ? "second hello" : "expected hello first");
  }
  if (!event.ok()) {
    return std::move(event).status().WithContext(
        fmt::format("ray_driver.py sent '{}'", ShownText(line, kMaxShown)));
  }
  has_hello_ = true;
  const auto tell = [&](const auto& handler, auto* value) {
    if (value != nullptr && handler) handler(std::move(*value));
  };
  tell(handlers_.on_hello, std::get_if<BrokerHello>(&*event));
  tell(handlers_.on_nodes, std::get_if<BrokerNodes>(&*event));
  tell(handlers_.on_group, std::get_if<BrokerGroup>(&*event));
  tell(handlers_.on_endpoint_started, std::get_if<BrokerEndpointStarted>(&*event));
  tell(handlers_.on_endpoint_ended, std::get_if<BrokerEndpointEnded>(&*event));
  tell(handlers_.on_signal, std::get_if<BrokerSignal>(&*event));
  return {};
}

void RayBroker::OnClosed(Status why) {
  if (why.ok()) why = Status(ErrorCode::kRayFailed, "ray_driver.py has ended");
  Close(std::move(why)
            .WithCode(ErrorCode::kRayFailed)
            .WithContext("talk to Ray")
            .WithHint("hvdray logs JOB shows the reason, if Ray wrote one"));
}

void RayBroker::Close(Status why) {
  if (std::exchange(is_closed_, true)) return;
  line_ = {};
  if (const auto on_closed = std::exchange(handlers_.on_closed, nullptr)) on_closed(std::move(why));
}

void RayBroker::Say(std::string text) {
  if (!is_closed_) stream_->Write(std::move(text));
}

void RayBroker::Reserve(const BrokerReserve& reserve) { Say(FormatBrokerReserve(reserve)); }

void RayBroker::Release(const std::string& group) { Say(FormatBrokerRelease(group)); }

void RayBroker::Watch() { Say(FormatBrokerWatch()); }

void RayBroker::Rest() { Say(FormatBrokerRest()); }

void RayBroker::Endpoint(const BrokerEndpoint& endpoint) { Say(FormatBrokerEndpoint(endpoint)); }

void RayBroker::CloseEndpoint(int endpoint) { Say(FormatBrokerCloseEndpoint(endpoint)); }

}  // namespace hvdray
