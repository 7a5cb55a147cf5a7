#include "cmd/rendezvous_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "cmd/exit_code.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/placement/kv_assignment.h"
#include "launcher/placement/placement.h"
#include "rendezvous/server.h"

namespace hvdray {
namespace {

constexpr Duration kDrainLimit = std::chrono::seconds(2);
// A descriptor a held request, and some.
constexpr uint64_t kOpenFiles = 65536 + 64;
constexpr double kMaxHoldSeconds = 3600;

struct Words {
  std::string address = "127.0.0.1";
  uint16_t port = 0;
  std::string hosts;
  std::string allow;
  double kv_hold_s = 1;
  bool no_peer_check = false;
};

void Declare(CLI::App& app, Words& words) {
  app.add_option("--host,--bind", words.address, "IPv4 address to listen on")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--port", words.port, "port to listen on; 0: any free one")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("-H,--hosts", words.hosts,
                 "where the workers are: says how many members each scope has, so that values live "
                 "until all have read them (needed by Horovod before 0.23)")
      ->type_name("HOST:SLOTS,...");
  app.add_option("--kv-hold", words.kv_hold_s,
                 "how long a request for a key that is not there yet waits for it; 0: not at all")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE))
      ->check(CLI::Range(0.0, kMaxHoldSeconds))
      ->default_str("1s")
      ->type_name("DURATION");
  app.add_option("--allow", words.allow,
                 "addresses that may speak to it; needed unless it listens on loopback")
      ->type_name("CIDR,...");
  app.add_flag("--no-peer-check", words.no_peer_check,
               "on loopback, let every user of this machine speak to it");
  app.footer(
      "Prints ADDRESS and PORT on the first line of stdout, then the variables that a worker "
      "needs\n"
      "(besides its HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK, _CROSS_SIZE).\n\n"
      "  hvdray rendezvous -H a:2,b:2 --host 10.1.0.4 --allow 10.1.0.0/16");
}

Result<RendezvousOptions> OptionsOf(const Words& words) {
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
  Words words;
  CLI::App app("Serves Horovod's rendezvous for workers that something else starts.",
               "hvdray rendezvous");
  Declare(app, words);
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
