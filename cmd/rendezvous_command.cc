// SPDX-License-Identifier: Apache-2.0
#include "cmd/rendezvous_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "cmd/rendezvous_options.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/placement.h"
#include "rendezvous/server.h"

namespace hvdray {
namespace {

constexpr Duration kDrainLimit = std::chrono::seconds(2);
// A descriptor a held request, and some.
constexpr uint64_t kOpenFiles = 65536 + 64;

Result<RendezvousOptions> OptionsOf(const RendezvousWords& words) {
  RendezvousOptions options;
  options.address = words.address;
  options.port = words.port;
  options.kv_hold = std::chrono::duration_cast<Duration>(Seconds(words.kv_hold_s));
  options.is_peer_checked = !words.no_peer_check;
  options.user = ::getuid();
  if (!words.allow.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(options.allow, ParseCidrList(words.allow));
  }
  if (!words.hosts.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<HostSlots> hosts, ParseHostList(words.hosts));
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<RankInfo> ranks,
                            AssignRanks(hosts, /*min_np=*/1, /*max_np=*/std::nullopt));
    options.assignment = KvAssignmentOf(ranks, /*generation=*/1);
  }
  return options;
}

/// What a worker puts into HOROVOD_GLOO_RENDEZVOUS_ADDR: no other machine can connect to 0.0.0.0.
std::string ReachableName(const std::string& address) {
  if (address != "0.0.0.0") return address;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return address;
  return name.data();
}

Status Announce(const std::string& address, uint16_t port) {
  const std::string name = ReachableName(address);
  std::fputs(
      "hvdray rendezvous: the protocol has no authentication: who can connect can change "
      "what workers trust\n",
      stderr);
  const Status written = WriteAll(
      STDOUT_FILENO, fmt::format("{} {}\nHOROVOD_GLOO_RENDEZVOUS_ADDR={}\n"
                                 "HOROVOD_GLOO_RENDEZVOUS_PORT={}\nHOROVOD_CONTROLLER=gloo\n"
                                 "HOROVOD_CPU_OPERATIONS=gloo\n",
                                 address, port, name, port));
  if (written.ok()) return {};
  return Status(ErrorCode::kReaderGone, "say where it listens: " + written.message());
}

/// Returns the exit code.
int ServeUntilSignal(Loop& loop, RendezvousOptions options) {
  const std::string address = options.address;
  // What can't be raised is said when it runs out.
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  auto server = RendezvousServer::Start(loop, std::move(options));
  if (!server.ok()) return Fail("rendezvous", server.status());
  int received = 0;
  std::vector<Watch> signals;
  for (const int signo : {SIGINT, SIGTERM, SIGHUP}) {
    signals.push_back(loop.OnSignal(signo, [&, signo] {
      if (std::exchange(received, signo) != 0) return loop.Stop();
      (*server)->Drain(kDrainLimit, [&] { loop.Stop(); });
    }));
  }
  const Status announced = Announce(address, (*server)->port());
  if (!announced.ok()) return Fail("rendezvous", announced);
  loop.Run();
  return 128 + received;
}

}  // namespace

int RendezvousCommand(std::span<const std::string> args) {
  RendezvousWords words;
  CLI::App app;
  DeclareRendezvous(app, words);
  try {
    // CLI11 takes its words from the back.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::Error& error) {
    return Fail("rendezvous", Status(ErrorCode::kUsage, error.what(),
                                     "hvdray rendezvous --help lists the options"));
  }
  Result<RendezvousOptions> options = OptionsOf(words);
  if (!options.ok()) return Fail("rendezvous", options.status());
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("rendezvous", loop.status());
  return ServeUntilSignal(**loop, std::move(options).value());
}

}  // namespace hvdray
