// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_broker.h"

#include <fmt/format.h>

#include <utility>

#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxShown = 120;  // of an invalid line

template <typename Function, typename Value>
void CallIfSet(const Function& function, Value value) {
  if (function) function(std::move(value));
}

}  // namespace

struct RayBroker::Impl {
  std::unique_ptr<ByteStream> stream;
  Handlers handlers;
  std::string line;  // unfinished
  bool has_hello = false;
  bool is_closed = false;  // or destroyed: calls no more handlers

  void OnData(ByteView bytes) {
    while (!is_closed) {
      const size_t end = bytes.find('\n');
      const ByteView part = bytes.substr(0, end);
      if (line.size() + part.size() > kMaxBrokerLine) {
        return Close({ErrorCode::kProtocolError,
                      fmt::format("a line of over {} bytes from ray_driver.py", kMaxBrokerLine)});
      }
      line += part;
      if (end == ByteView::npos) return;
      bytes.remove_prefix(end + 1);
      OnLine(std::exchange(line, {}));
    }
  }

  void OnLine(const std::string& whole) {
    Result<BrokerEvent> event = ParseBrokerEvent(whole);
    if (event.ok() && std::holds_alternative<BrokerHello>(*event) == has_hello) {
      event =
          Status(ErrorCode::kProtocolError, has_hello ? "second hello" : "expected hello first");
    }
    if (!event.ok()) {
      return Close(std::move(event).status().WithContext(
          fmt::format("ray_driver.py sent '{}'", ShownText(whole, kMaxShown))));
    }
    has_hello = true;
    std::visit([this](auto&& value) { Tell(std::forward<decltype(value)>(value)); },
               std::move(event).value());
  }

  void Tell(BrokerHello hello) { CallIfSet(handlers.on_hello, std::move(hello)); }
  void Tell(BrokerNodes nodes) { CallIfSet(handlers.on_nodes, std::move(nodes)); }
  void Tell(BrokerGroup group) { CallIfSet(handlers.on_group, std::move(group)); }
  void Tell(BrokerEndpointStarted endpoint) {
    CallIfSet(handlers.on_endpoint_started, std::move(endpoint));
  }
  void Tell(BrokerEndpointEnded endpoint) {
    CallIfSet(handlers.on_endpoint_ended, std::move(endpoint));
  }
  void Tell(BrokerSignal signal) { CallIfSet(handlers.on_signal, std::move(signal)); }

  void Close(Status why) {
    if (std::exchange(is_closed, true)) return;
    line = {};
    CallIfSet(handlers.on_closed, std::move(why));
  }

  void OnStreamClosed(Status status) {
    if (status.ok()) status = Status(ErrorCode::kRayFailed, "ray_driver.py has ended");
    Close(std::move(status)
              .WithCode(ErrorCode::kRayFailed)
              .WithContext("talk to Ray")
              .WithHint("for the reason, see the job's log on the cluster: `ray job logs`"));
  }

  void Say(std::string text) {
    if (!is_closed) stream->Write(std::move(text));
  }
};

RayBroker::RayBroker(std::unique_ptr<ByteStream> stream, Handlers handlers)
    : impl_(std::make_shared<Impl>()) {
  impl_->stream = std::move(stream);
  impl_->handlers = std::move(handlers);
}

RayBroker::~RayBroker() {
  impl_->is_closed = true;
  impl_->stream.reset();
}

void RayBroker::Start() {
  // A handler may destroy the broker and the stream; the running callback keeps the rest alive.
  const std::weak_ptr<Impl> weak = impl_;
  impl_->stream->Start({[weak](ByteView bytes) {
                          if (const auto impl = weak.lock()) impl->OnData(bytes);
                        },
                        {},
                        [weak](const Status& status) {
                          if (const auto impl = weak.lock()) impl->OnStreamClosed(status);
                        }});
}

void RayBroker::Reserve(const BrokerReserve& reserve) { impl_->Say(FormatBrokerReserve(reserve)); }

void RayBroker::Release(const std::string& group) { impl_->Say(FormatBrokerRelease(group)); }

void RayBroker::Watch() { impl_->Say(FormatBrokerWatch()); }

void RayBroker::Rest() { impl_->Say(FormatBrokerRest()); }

void RayBroker::Endpoint(const BrokerEndpoint& endpoint) {
  impl_->Say(FormatBrokerEndpoint(endpoint));
}

void RayBroker::CloseEndpoint(int endpoint) { impl_->Say(FormatBrokerCloseEndpoint(endpoint)); }

}  // namespace hvdray
