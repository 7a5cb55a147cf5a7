// SPDX-License-Identifier: Apache-2.0
#include "agent/preparation.h"

#include <optional>
#include <utility>

#include "base/environ.h"
#include "base/log.h"
#include "base/secrets_equal.h"

namespace hvdray {

uint16_t Preparation::Listen() {
  Result<std::unique_ptr<ProbeListener>> listener = ProbeListener::Open(loop_);
  if (!listener.ok()) {
    Log(LogLevel::kWarning, "agent", "no port for probes: {}", listener.status().message());
    return 0;
  }
  listener_ = std::move(listener).value();
  return listener_->port();
}

Status Preparation::On(Generation generation, wire::Probe&& probe) {
  if (!probe.token.empty()) {
    Measure(generation, probe);
  } else if (prober_) {
    ++stale_requests_;
  } else {
    prober_ = std::make_unique<Prober>(loop_, probe, [this, generation](wire::ProbeResult result) {
      link_.Send({generation, std::move(result)});
    });
  }
  return {};
}

void Preparation::Measure(Generation generation, const wire::Probe& probe) {
  if (!listener_ || measurer_) {
    ++stale_requests_;
    return;
  }
  if (!measure_server_ || !SecretsEqual(measure_server_->token(), probe.token)) {
    measure_server_ = std::make_unique<MeasureServer>(loop_, probe.token);
    listener_->GiveTo([this](UniqueFd socket) { measure_server_->Take(std::move(socket)); });
  }
  if (probe.targets.empty()) return link_.Send({generation, wire::ProbeResult{}});
  measurer_ =
      std::make_unique<Measurer>(loop_, probe, [this, generation](const wire::ProbeOutcome& done) {
        link_.Send({generation, wire::ProbeResult{{done}}});
        measurer_.reset();
      });
}

Status Preparation::On(Generation generation, wire::DirectoryList&& list) {
  if (!receiver_) {
    receiver_ = std::make_unique<DirectoryReceiver>(Environment::FromProcess().GetOr("HOME", ""));
  }
  HVDRAY_ASSIGN_OR_RETURN(wire::Body answer, receiver_->OnList(std::move(list)));
  link_.Send({generation, std::move(answer)});
  return {};
}

Status Preparation::On(Generation generation, wire::File&& file) {
  if (!receiver_) return {ErrorCode::kProtocolError, "File before DirectoryList"};
  HVDRAY_ASSIGN_OR_RETURN(std::optional<wire::Body> answer, receiver_->OnFile(file));
  if (answer) link_.Send({generation, std::move(*answer)});
  return {};
}

void Preparation::End() {
  prober_.reset();
  measurer_.reset();
  listener_.reset();
  measure_server_.reset();
  receiver_.reset();
}

}  // namespace hvdray
