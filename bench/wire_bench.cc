// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a link: 64 KiB Output frames, then small KV round trips, through two links
// over a socketpair, on one loop in one thread. Prints one JSON object.
// Usage: wire_bench [OUTPUT_MIB]
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "wire/frame.h"
#include "wire/link.h"

namespace {

using namespace hvdray;
using namespace hvdray::wire;

constexpr uint64_t kRoundTrips = 100'000;
constexpr uint64_t kInFlight = 64;

std::unique_ptr<ByteStream> StreamOf(Loop& loop, UniqueFd fd) {
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return MakeFdStream(loop, std::move(fd), std::move(copy));
}

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Cost {
  double wall_s = 0;
  double cpu_s = 0;
};

class Bench {
 public:
  explicit Bench(uint64_t output_bytes) : output_bytes_(output_bytes) {
    auto [a, b] = MakeSocketPair().value();
    launcher_ = MakeLink(*loop_, LinkRole::kLauncher, StreamOf(*loop_, std::move(a)));
    agent_ = MakeLink(*loop_, LinkRole::kAgent, StreamOf(*loop_, std::move(b)));
  }

  void Run() {
    launcher_->Start(launcher_end_);
    agent_->Start(agent_end_);
    agent_->Send({0, Hello{}});
    launcher_->Send({0, Hello{}});
    loop_->Run();
    constexpr double kTrips = kRoundTrips;
    fmt::print(R"({{"bench":"wire","output_bytes":{},"output_wall_s":{:.3f},"output_cpu_s":{:.3f},)"
               R"("output_mb_per_s":{:.0f},"kv_round_trips":{},"kv_wall_us":{:.2f},)"
               R"("kv_cpu_us":{:.2f}}})"
               "\n",
               output_bytes_, output_.wall_s, output_.cpu_s,
               static_cast<double>(output_bytes_) / output_.wall_s * 1e-6, kRoundTrips,
               kv_.wall_s * 1e6 / kTrips, kv_.cpu_s * 1e6 / kTrips);
  }

 private:
  struct LauncherEnd final : Link::Owner {
    explicit LauncherEnd(Bench& its_bench) : bench(its_bench) {}
    void OnMessage(Message&& message) override { bench.AtLauncher(message); }
    void OnClosed(Status status) override { Die(status); }
    Bench& bench;
  };
  struct AgentEnd final : Link::Owner {
    explicit AgentEnd(Bench& its_bench) : bench(its_bench) {}
    void OnMessage(Message&& message) override { bench.AtAgent(message); }
    void OnClosed(Status status) override { Die(status); }
    void OnOutputRoom() override { bench.FillOutput(); }
    Bench& bench;
  };

  [[noreturn]] static void Die(const Status& status) {
    fmt::print(stderr, "wire_bench: {}\n", status.ToString());
    std::exit(1);
  }

  void StartClock() {
    wall_start_ = loop_->Now();
    cpu_start_ = CpuSeconds();
  }
  Cost Stop() const {
    return {Seconds(loop_->Now() - wall_start_).count(), CpuSeconds() - cpu_start_};
  }

  void FillOutput() {
    while (sent_ < output_bytes_ && agent_->HasOutputRoom()) {
      agent_->Send({1, Output{0, StreamId::kStdout, false, block_}});
      sent_ += block_.size();
    }
  }

  void AtAgent(const Message& message) {
    if (std::holds_alternative<Hello>(message.body)) {
      StartClock();
      FillOutput();
    } else if (std::holds_alternative<KvReply>(message.body)) {
      if (++answered_ == kRoundTrips) {
        kv_ = Stop();
        loop_->Stop();
      } else if (asked_ < kRoundTrips) {
        Ask();
      }
    }
  }

  void Ask() { agent_->Send({1, KvRequest{++asked_, KvOp::kGet, 0, "global", "12", ""}}); }

  void AtLauncher(const Message& message) {
    if (const auto* output = std::get_if<Output>(&message.body)) {
      received_ += output->bytes.size();
      if (received_ < output_bytes_) return;
      output_ = Stop();
      StartClock();
      for (uint64_t i = 0; i < kInFlight; ++i) Ask();
    } else if (const auto* request = std::get_if<KvRequest>(&message.body)) {
      launcher_->Send({1, KvReply{request->id, 200, "", value_}});
    }
  }

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  LauncherEnd launcher_end_{*this};
  AgentEnd agent_end_{*this};
  std::unique_ptr<Link> launcher_;
  std::unique_ptr<Link> agent_;
  const std::string block_ = std::string(kMaxOutput, 'x');
  const std::string value_ = std::string(200, 'v');
  const uint64_t output_bytes_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t asked_ = 0;
  uint64_t answered_ = 0;
  TimePoint wall_start_;
  double cpu_start_ = 0;
  Cost output_;
  Cost kv_;
};

}  // namespace

int main(int argc, char** argv) {
  const uint64_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024;
  if (mib == 0) {
    fmt::print(stderr, "usage: wire_bench [OUTPUT_MIB]\n");
    return 2;
  }
  Bench(mib << 20).Run();
  return 0;
}
