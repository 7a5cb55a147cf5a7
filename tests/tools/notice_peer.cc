// SPDX-License-Identifier: Apache-2.0
// An agent's two parts that a Horovod worker meets when hosts change, and nothing else: its relay,
// where it registers, and the notifier. Driven by lines of stdin, for tests with real workers.
//   prints  port N                   where the one worker (slot "testhost:0") finds its relay
//           registered ADDRESSES     when it has
//   reads   notify TIMESTAMP CODE    prints  notice TIMESTAMP ok | ERROR
// Ends with its stdin.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <string>

#include "agent/notifier.h"
#include "base/loop.h"
#include "rendezvous/relay.h"

namespace hvdray {
namespace {

constexpr int kWorker = 0;

void Say(std::string line) {
  for (char& c : line) c = c == '\n' ? ' ' : c;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

class Registrations final : public KvUpstream {
 public:
  void Ask(KvQuestion question) override {
    if (question.op == KvOp::kWorkerAddresses) Say("registered " + *question.value);
  }
};

class Peer {
 public:
  explicit Peer(Loop& loop)
      : loop_(loop),
        relay_(std::make_unique<Relay>(loop, Relay::Options(), registrations_)),
        notifier_(loop) {}

  Status Start() {
    HVDRAY_ASSIGN_OR_RETURN(const uint16_t port, relay_->OpenWorker(kWorker, "testhost:0", 1));
    Say(fmt::format("port {}", port));
    watch_ = loop_.OnFd(STDIN_FILENO, FdEvent::kRead, [this] { Read(); });
    return {};
  }

 private:
  void Read() {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got <= 0) return loop_.Stop();
    input_.append(buffer.data(), static_cast<size_t>(got));
    for (size_t end = 0; (end = input_.find('\n')) != std::string::npos;) {
      Obey(input_.substr(0, end));
      input_.erase(0, end + 1);
    }
  }

  void Obey(const std::string& line) {
    Notice notice;
    if (std::sscanf(line.c_str(), "notify %" SCNd64 " %" SCNu8, &notice.timestamp, &notice.code) !=
        2) {
      return Say("what? " + line);
    }
    const WorkerAddresses* addresses = relay_->AddressesOf(kWorker);
    if (addresses == nullptr) return Say(fmt::format("notice {} unregistered", notice.timestamp));
    notifier_.Send(kWorker, *addresses, notice, [notice](const Status& outcome) {
      Say(fmt::format("notice {} {}", notice.timestamp, outcome.ToString()));
    });
  }

  Loop& loop_;
  Registrations registrations_;
  std::unique_ptr<Relay> relay_;
  Notifier notifier_;
  std::string input_;
  Watch watch_;
};

int Main() {
  std::signal(SIGPIPE, SIG_IGN);
  const auto loop = Loop::Create();
  if (!loop.ok()) return 1;
  Peer peer(**loop);
  const Status status = peer.Start();
  if (!status.ok()) {
    Say(status.ToString());
    return 1;
  }
  (*loop)->Run();
  return 0;
}

}  // namespace
}  // namespace hvdray

int main() { return hvdray::Main(); }
