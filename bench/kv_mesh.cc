// SPDX-License-Identifier: Apache-2.0
// Measures the launcher's cost of a large hvd.init(): the real store, and real links to many
// simulated agents in a child process. Each agent puts the addresses of its ranks, follows the
// scope as a relay does, and is done once it has all values. Prints one JSON object.
// Usage: kv_mesh [RANKS [HOSTS [plain]]]
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

#include "base/gzip.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/kv_bridge.h"

namespace {

using namespace hvdray;

constexpr Generation kGeneration = 1;
constexpr uint64_t kInflateEach = 64;  // one value in so many; 128 real hosts inflate in parallel

struct Size {
  int ranks = 1024;
  int hosts = 128;
  bool is_plain = false;
  int per_host() const { return ranks / hosts; }
};

struct Counting {
  uint64_t sent_bytes = 0;
};

// Gloo's format (Horovod 0.28): for each peer a sockaddr_storage and a number.
std::string AddressesOf(int rank, const Size& size) {
  std::string row;
  for (int peer = 0; peer < size.ranks; ++peer) {
    sockaddr_storage storage{};
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(static_cast<uint16_t>(30000 + rank));
    address->sin_addr.s_addr = htonl(0x0a000000U + static_cast<uint32_t>(rank / size.per_host()));
    const uint64_t number = static_cast<uint64_t>(rank) * 7919 + static_cast<uint64_t>(peer);
    row.append(reinterpret_cast<const char*>(&storage), sizeof storage);
    row.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return row;
}

std::unique_ptr<ByteStream> StreamOf(Loop& loop, UniqueFd fd) {
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return MakeFdStream(loop, std::move(fd), std::move(copy));
}

// ---- the agents

class SimulatedAgent final : private wire::Link::Owner {
 public:
  SimulatedAgent(Loop& loop, UniqueFd socket, int host, const Size& size)
      : size_(size),
        host_(host),
        link_(wire::MakeLink(loop, wire::LinkRole::kAgent, StreamOf(loop, std::move(socket)))) {
    link_->Start(*this);
    wire::Hello hello;
    hello.takes_deflated = !size.is_plain;
    link_->Send({0, std::move(hello)});
  }

 private:
  void OnClosed(Status /*why*/) override { ::_exit(0); }
  void OnMessage(wire::Message&& message) override {
    if (std::holds_alternative<wire::KvReset>(message.body)) return Begin();
    const auto* reply = std::get_if<wire::KvReply>(&message.body);
    if (reply == nullptr || reply->id != kFollow || reply->status != 200) return;
    if (++count_ % kInflateEach == 0 && reply->inflated_bytes != 0) {
      if (!Inflate(reply->value, reply->inflated_bytes).ok()) ::_exit(1);
    }
    if (count_ == static_cast<uint64_t>(size_.ranks - size_.per_host())) {
      link_->Send({kGeneration, wire::GenerationStopped{}});
    }
  }

  void Begin() {
    wire::KvRequest follow;
    follow.id = kFollow;
    follow.operation = KvOp::kFollow;
    follow.scope = "global";
    link_->Send({kGeneration, follow});
    for (int local = 0; local < size_.per_host(); ++local) {
      const int rank = host_ * size_.per_host() + local;
      wire::KvRequest put;
      put.id = kFollow + 1 + static_cast<uint64_t>(local);
      put.operation = KvOp::kPut;
      put.rank = rank;
      put.scope = "global";
      put.key = std::to_string(rank);
      put.value = AddressesOf(rank, size_);
      if (!size_.is_plain) {
        put.inflated_bytes = static_cast<uint32_t>(put.value.size());
        put.value = Deflate(put.value).value();
      }
      link_->Send({kGeneration, std::move(put)});
    }
  }

  static constexpr uint64_t kFollow = 1;
  const Size size_;
  const int host_;
  uint64_t count_ = 0;
  std::unique_ptr<wire::Link> link_;
};

[[noreturn]] void RunAgents(std::vector<UniqueFd> sockets, const Size& size) {
  const std::unique_ptr<Loop> loop = Loop::Create().value();
  std::vector<std::unique_ptr<SimulatedAgent>> agents;
  for (size_t host = 0; host < sockets.size(); ++host) {
    agents.push_back(std::make_unique<SimulatedAgent>(*loop, std::move(sockets[host]),
                                                      static_cast<int>(host), size));
  }
  loop->Run();
  ::_exit(0);
}

// ---- the launcher

class CountingStream : public ByteStream {
 public:
  CountingStream(std::unique_ptr<ByteStream> stream, Counting& counting)
      : stream_(std::move(stream)), counting_(counting) {}
  void Start(Owner& owner) override { stream_->Start(owner); }
  void Write(std::string bytes) override {
    counting_.sent_bytes += bytes.size();
    stream_->Write(std::move(bytes));
  }
  size_t QueuedBytes() const override { return stream_->QueuedBytes(); }
  void SetReading(bool is_reading) override { stream_->SetReading(is_reading); }

 private:
  const std::unique_ptr<ByteStream> stream_;
  Counting& counting_;
};

class NoProcess : public AgentProcess {
 public:
  void OnExit(std::function<void(Status)> /*callback*/) override {}
  int pid() const override { return 0; }
};

class SocketTransport : public Transport {
 public:
  SocketTransport(Loop& loop, std::vector<UniqueFd> sockets, Counting& counting)
      : loop_(loop), sockets_(std::move(sockets)), counting_(counting) {}
  void Start(const std::string& /*host*/, std::function<void(Result<AgentStart>)> done) override {
    loop_.Post([this, done = std::move(done)] {
      AgentStart start;
      start.stream = std::make_unique<CountingStream>(StreamOf(loop_, std::move(sockets_[next_++])),
                                                      counting_);
      start.process = std::make_unique<NoProcess>();
      done(std::move(start));
    });
  }

 private:
  Loop& loop_;
  std::vector<UniqueFd> sockets_;
  Counting& counting_;
  size_t next_ = 0;
};

class Launcher final : private AgentSet::Owner {
 public:
  Launcher(Loop& loop, std::vector<UniqueFd> sockets, const Size& size)
      : loop_(loop),
        size_(size),
        transport_(loop, std::move(sockets), counting_),
        agents_(loop, transport_, Names(size), "bench", {}, *this),
        kv_(agents_) {}

  void Run() {
    agents_.StartAll();
    loop_.Run();
    const double seconds = Seconds(loop_.Now() - begin_).count();
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const uint64_t row = static_cast<uint64_t>(size_.ranks) * (sizeof(sockaddr_storage) + 8);
    const uint64_t plain =
        row * static_cast<uint64_t>(size_.ranks) * static_cast<uint64_t>(size_.hosts - 1);
    fmt::print(R"({{"ranks":{},"hosts":{},"seconds":{:.3f},"sent_bytes":{},)"
               R"("value_bytes":{},"peak_rss_kib":{}}})"
               "\n",
               size_.ranks, size_.hosts, seconds, counting_.sent_bytes, plain, usage.ru_maxrss);
  }

 private:
  static std::vector<std::string> Names(const Size& size) {
    std::vector<std::string> names;
    for (int host = 0; host < size.hosts; ++host) names.push_back(fmt::format("h{}", host));
    return names;
  }

  void OnReady(int /*host*/, const wire::HostFacts& /*facts*/) override {
    if (++ready_ == size_.hosts) Begin();
  }
  void OnLost(int /*host*/, Status why) override {
    fmt::print(stderr, "kv_mesh: {}\n", why.ToString());
    std::exit(1);
  }
  void OnControlRoom(int host) override { kv_.OnRoom(host); }
  void OnMessage(int host, wire::Message&& message) override {
    if (auto* request = std::get_if<wire::KvRequest>(&message.body)) {
      kv_.OnRequest(host, message.generation, std::move(*request));
    } else if (std::holds_alternative<wire::GenerationStopped>(message.body)) {
      if (++done_ == size_.hosts) loop_.Stop();
    }
  }

  void Begin() {
    std::vector<HostSlots> hosts;
    for (const std::string& name : Names(size_)) hosts.push_back({name, size_.per_host()});
    kv_.Reset(AssignRanks(hosts, size_.ranks, size_.ranks).value(), kGeneration);
    begin_ = loop_.Now();
    agents_.SendAll({kGeneration, wire::KvReset{}});
  }

  Loop& loop_;
  const Size size_;
  Counting counting_;
  SocketTransport transport_;
  AgentSet agents_;
  KvBridge kv_;
  TimePoint begin_{};
  int ready_ = 0;
  int done_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Size size;
  if (argc > 1) size.ranks = std::atoi(argv[1]);
  if (argc > 2) size.hosts = std::atoi(argv[2]);
  size.is_plain = argc > 3 && std::string_view(argv[3]) == "plain";
  if (size.hosts < 2 || size.ranks < size.hosts || size.ranks % size.hosts != 0) {
    std::fputs("usage: kv_mesh [RANKS [HOSTS [plain]]], RANKS a multiple of HOSTS\n", stderr);
    return 2;
  }
  (void)RaiseOpenFileLimit(4096).ok();
  std::vector<UniqueFd> ours, theirs;
  for (int host = 0; host < size.hosts; ++host) {
    auto [one, other] = MakeSocketPair().value();
    ours.push_back(std::move(one));
    theirs.push_back(std::move(other));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ours.clear();
    RunAgents(std::move(theirs), size);
  }
  theirs.clear();
  {
    const std::unique_ptr<Loop> loop = Loop::Create().value();
    Launcher(*loop, std::move(ours), size).Run();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
