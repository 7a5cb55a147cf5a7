// SPDX-License-Identifier: Apache-2.0
#include "agent/dialled_agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "agent/agent_run.h"
#include "agent/keeper.h"
#include "base/environ.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/tls_stream.h"
#include "cluster/transport/endpoint_address.h"
#include "cluster/transport/endpoint_dialler.h"

namespace hvdray {
namespace {

constexpr int kKeyWaitMs = 30'000;
// Stopping a Ray job signals each of its processes, and ours forward signals to each other.
constexpr Duration kSignalMerge = std::chrono::seconds(1);

/// Reads one line byte by byte, so that it consumes nothing after it. Blocks for up to 30 s a byte.
Result<Secret> ReadKey(int fd) {
  std::array<char, 2 * kTlsKeyBytes> line{};
  size_t size = 0;
  Status status;
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, kKeyWaitMs);
    if (ready < 0 && errno == EINTR) continue;
    char byte = 0;
    const ssize_t n = ready > 0 ? ::read(fd, &byte, 1) : 0;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      status = {ErrorCode::kUsage, "stdin: no line with the job's key arrived"};
      break;
    }
    if (byte == '\n') break;
    if (size == line.size()) {
      status = {ErrorCode::kUsage, "stdin: the first line is not a key"};
      break;
    }
    line[size++] = byte;
  }
  Result<Secret> key = status.ok() ? ParseTlsKey({line.data(), size}) : Result<Secret>(status);
  ::explicit_bzero(line.data(), line.size());
  return key;
}

/// Moves the lifeline away from descriptor 0, so that no stray read consumes it.
Result<UniqueFd> TakeStdin() {
  UniqueFd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_valid()) return ErrnoStatus("/dev/null", errno);
  if (!fd.is_valid()) return ErrnoStatus("dup", errno);
  ::dup2(null.get(), STDIN_FILENO);
  return fd;
}

Status AddLifelines(const DialOptions& options, ApartLifelines apart, Lifelines& lifelines) {
  lifelines.Add(std::move(apart.keeper), "the agent's keeper was killed");
  lifelines.Add(std::move(apart.front), "the agent's parent was killed");
  if (options.raylet == 0) return {};
  return lifelines.AddProcess(
      options.raylet, fmt::format("Ray's raylet on this node (pid {}) died", options.raylet));
}

EndpointDialOptions DialOf(const DialOptions& options) {
  EndpointDialOptions dial;
  dial.addresses = options.addresses;
  dial.endpoint = options.endpoint;
  dial.limit = options.limit;
  return dial;
}

/// Runs the loop until the driver has answered or a lifeline is lost.
Result<std::unique_ptr<ByteStream>> Dial(Loop& loop, EndpointDialOptions dial, Secret key,
                                         Lifelines& lifelines) {
  std::optional<Result<std::unique_ptr<ByteStream>>> outcome;
  auto dialler = DialEndpoint(loop, std::move(dial), std::move(key),
                              [&](Result<std::unique_ptr<ByteStream>> result) {
                                if (!outcome) outcome.emplace(std::move(result));
                                loop.Stop();
                              });
  lifelines.OnLost([&](const Status& why) {
    outcome.emplace(why);
    loop.Stop();
  });
  loop.Run();
  dialler.reset();
  return std::move(*outcome);
}

struct Beginning {
  std::unique_ptr<Loop> loop;
  ApartLifelines apart;
};

/// Forks front and keeper; only the agent returns. Call before starting threads.
Result<Beginning> BeginApart() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> complaints = RepairInheritedLimits();
  HVDRAY_ASSIGN_OR_RETURN(ApartLifelines apart, ForkKeeperApart());
  for (const std::string& complaint : complaints) {
    Log(LogLevel::kWarning, "agent", "{}", complaint);
  }
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Create());
  return Beginning{std::move(loop), std::move(apart)};
}

int RunSession(Loop& loop, const DialOptions& options, std::unique_ptr<ByteStream> stream,
               Lifelines& lifelines) {
  AgentSessionOptions session;
  session.has_probe_listener = options.has_probe_listener;
  session.node.gpus = options.gpus;
  session.node.python = options.python;
  session.node.environment =
      WithoutRay(Environment::FromProcess().ToStrings(),
                 options.keeps_ray_environment ? RayNames::kKept : RayNames::kDropped);
  const AgentEnd end =
      RunAgentSession(loop, std::move(stream), lifelines, std::move(session), kSignalMerge);
  // The actor forwards the last line to the driver, often before the driver sees the link close.
  const Status& why = lifelines.lost().ok() ? end.why : lifelines.lost();
  if (!why.ok()) {
    (void)WriteAll(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", why.message())).ok();
  }
  return end.exit_code;
}

constexpr char kOomFile[] = "/proc/self/oom_score_adj";

void RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int RunDialledAgent(const DialOptions& options) {
  Result<Beginning> begun = BeginApart();
  if (!begun.ok()) return FailAgent(begun.status());
  Loop& loop = *begun->loop;
  Result<Secret> key = ReadKey(STDIN_FILENO);
  if (!key.ok()) return FailAgent(key.status());
  Result<UniqueFd> actor = TakeStdin();
  if (!actor.ok()) return FailAgent(actor.status());
  Lifelines lifelines(loop, [](const Status&) {});
  lifelines.Add(std::move(actor).value(), "the actor that started the agent is gone");
  const Status watched = AddLifelines(options, std::move(begun->apart), lifelines);
  if (!watched.ok()) return FailAgent(watched);
  auto stream = Dial(loop, DialOf(options), std::move(key).value(), lifelines);
  if (!stream.ok()) return FailAgent(stream.status());
  return RunSession(loop, options, std::move(stream).value(), lifelines);
}

std::vector<std::string> RepairInheritedLimits() {
  std::vector<std::string> complaints;
  UnblockSignals();
  RaiseOpenFiles();
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && nice > 0 && ::setpriority(PRIO_PROCESS, 0, 0) != 0) {
    complaints.push_back(fmt::format("workers run at niceness {}: {}", nice, ::strerror(errno)));
  }
  const Result<std::string> score = ReadFile(kOomFile, 64);
  if (score.ok() && ::atoi(score->c_str()) > 0) {
    const UniqueFd file(::open(kOomFile, O_WRONLY | O_CLOEXEC));
    if (!file.is_valid() || ::write(file.get(), "0", 1) != 1) {
      complaints.push_back(
          fmt::format("workers are killed first when memory runs out "
                      "(oom_score_adj {}): {}",
                      ::atoi(score->c_str()), ::strerror(errno)));
    }
  }
  return complaints;
}

}  // namespace hvdray
