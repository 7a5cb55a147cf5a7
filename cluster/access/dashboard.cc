// SPDX-License-Identifier: Apache-2.0
// `hvdray dashboard FILE`: a tunnel to the dashboard on the head, until a signal.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/loop.h"
#include "cluster/access/actions.h"
#include "cluster/access/cluster_access.h"
#include "cluster/access/port_forwarder.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/transport/ssh_tunnel.h"
#include "cluster/up/head_survey.h"
#include "launcher/engine/signals.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"

namespace hvdray {
namespace {

Result<std::optional<uint16_t>> PortOf(const CommandRequest& request, OptionId id) {
  const RawOption* said = request.said.Find(id);
  if (said == nullptr) return std::optional<uint16_t>();
  HVDRAY_ASSIGN_OR_RETURN(const int64_t port, WholeOf(id, *said));
  return std::optional(static_cast<uint16_t>(port));
}

/// 128 + signal; nullopt: the tunnel broke.
std::optional<int> WaitForSignal(Loop& loop, int broken_fd) {
  std::optional<int> code;
  SignalHandlers handlers;
  handlers.on_stop = [&](int signo) {
    code = 128 + signo;
    loop.Stop();
  };
  const UserSignals signals(loop, std::move(handlers));
  Watch broken;
  if (broken_fd >= 0) {
    broken = loop.OnFd(broken_fd, FdEvent::kRead, [&] {
      broken.Cancel();
      loop.Stop();
    });
  }
  loop.Run();
  return code;
}

}  // namespace

Result<int> ForwardDashboard(ClusterAccess& access, const CommandRequest& request) {
  HVDRAY_ASSIGN_OR_RETURN(const auto said_here, PortOf(request, OptionId::kDashboardPort));
  HVDRAY_ASSIGN_OR_RETURN(const auto said_there, PortOf(request, OptionId::kRemotePort));
  HVDRAY_RETURN_IF_ERROR(FindNodes(access));
  HVDRAY_ASSIGN_OR_RETURN(const ClusterNode head, ResolveHead(access));
  RayDashboard place = {"127.0.0.1", said_there.value_or(kRayDashboardPort)};
  if (!said_there) {
    Result<RayDashboard> found = FindDashboard(head.host, access.file.cluster_name, access.spec);
    if (!found.ok()) return std::move(found).status().WithCode(ErrorCode::kHostUnreachable);
    place = std::move(found).value();
  }
  const uint16_t there = place.port;
  const std::string url = RayAddress{.host = place.ReachedAt(), .port = there}.Url();
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  if (IsHere(access, head)) {
    if (said_here.value_or(there) == there) {
      return PrintOut("dashboard", url + "\n");
    }
    return Status(ErrorCode::kUsage,
                  fmt::format("{} is this machine: nothing to forward", head.address),
                  "open " + url);
  }
  const uint16_t here = said_here.value_or(kRayDashboardPort);
  // Before SSH, which may ask for a password.
  Result<std::unique_ptr<PortForwarder>> port =
      PortForwarder::Open(*loop, here, *access.spec.is_peer_checked);
  if (!port.ok()) {
    if (port.status().code() != ErrorCode::kAddressInUse) return port.status();
    return Status(ErrorCode::kAddressInUse, port.status().message(),
                  fmt::format("hvdray dashboard {} -p PORT", access.words));
  }
  HVDRAY_ASSIGN_OR_RETURN(
      const std::unique_ptr<SshTunnel> tunnel,
      OpenDashboardTunnel(head.host, place, !access.file.docker.container_name.empty(),
                          access.spec));
  (*port)->LeadTo(tunnel->socket_path());
  RayAccess ray;
  ray.address.host = "127.0.0.1";
  ray.address.port = there;
  ray.address.socket_path = tunnel->socket_path();
  if (Status why = DashboardClient(std::move(ray)).Version().status();
      why.code() == ErrorCode::kRayUnreachable) {
    return Status(ErrorCode::kHostUnreachable,
                  fmt::format("{}: nothing answers at its port {}", head.address, there),
                  fmt::format("start the cluster with hvdray up {}", access.words));
  }
  const int printed = PrintOut("dashboard", fmt::format("http://127.0.0.1:{}\n", here));
  if (printed != 0) return printed;
  if (const auto code = WaitForSignal(*loop, tunnel->ended_fd())) return *code;
  return Status(ErrorCode::kHostUnreachable, fmt::format("{}: the tunnel broke", head.address));
}

}  // namespace hvdray
