#include "launcher/report/failure_hint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/command_words.h"

namespace hvdray {
namespace {

bool LineHas(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

/// A Gloo or torch.distributed of one host has told the others an address that only it can reach.
/// 127.0.0.1 alone is no sign: that is where workers ask for their rendezvous.
bool IsPeerOnLoopback(std::string_view line) {
  const bool is_failure = LineHas(line, "refused") || LineHas(line, "timed out") ||
                          LineHas(line, "timeout") || LineHas(line, "connectFullMesh") ||
                          LineHas(line, "reset by peer");
  return is_failure &&
         (LineHas(line, "[127.") || LineHas(line, "127.0.1.1") || LineHas(line, "[::ffff:127."));
}

/// Hosts that are all named by loopback addresses may well speak to each other over these.
bool HasRemoteHost(std::span<const WorkerRecord> workers) {
  const auto is_here = [](const std::string& host) {
    in_addr address{};
    const bool is_number = ::inet_aton(host.c_str(), &address) != 0;
    return host == "localhost" || (is_number && ntohl(address.s_addr) >> 24 == 127);
  };
  const std::string first = workers.empty() ? std::string() : workers.front().host;
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerRecord& worker) {
    return worker.host != first && !(is_here(worker.host) && is_here(first));
  });
}

/// What torch.distributed says when it looks for torchrun's variables.
bool IsRankMissing(std::string_view line) {
  return LineHas(line, "environment variable") && LineHas(line, "expected, but not set") &&
         (LineHas(line, "RANK") || LineHas(line, "WORLD_SIZE") || LineHas(line, "MASTER_"));
}

/// `os.environ["RANK"]` of a script.
bool IsKeyOfTorchrun(std::string_view line) {
  const auto keys = {"'RANK'", "'LOCAL_RANK'", "'WORLD_SIZE'", "'MASTER_ADDR'", "'MASTER_PORT'"};
  return line.starts_with("KeyError: ") &&
         std::any_of(keys.begin(), keys.end(),
                     [line](const char* key) { return LineHas(line, key); });
}

}  // namespace

std::string FailureHint(const Verdict& verdict, std::span<const std::string> last_lines,
                        const ClosingStyle& style) {
  const WorkerRecord& worker = *verdict.first_failure;
  if (worker.status && worker.status->stage == wire::ExecStage::kExec) {
    if (worker.status->error == ELIBACC && !style.interpreter.empty()) {
      return InterpreterHint(style.command, style.interpreter);
    }
    return worker.status->error == ELIBACC ? std::string() : CommandHint(style.command);
  }
  const auto any = [last_lines](bool (*is_sign)(std::string_view line)) {
    return std::any_of(last_lines.begin(), last_lines.end(), is_sign);
  };
  if (HasRemoteHost(verdict.workers) && any(&IsPeerOnLoopback)) {
    return "a host has told the others a loopback address as its own: its name resolves to that; "
           "hvdray check says which, mend /etc/hosts there";
  }
  if (style.outlives_changes && (any(&IsRankMissing) || any(&IsKeyOfTorchrun))) {
    return "a torch.distributed script needs --elastic-mode gang: all workers start anew after a "
           "change, with RANK and WORLD_SIZE set";
  }
  return {};
}

}  // namespace hvdray
