// SPDX-License-Identifier: Apache-2.0
// A rank of tests/integration/collective_test.py and collective_hosts_test.py.
//   collective_probe suite            every collective, in this communicator and in smaller ones
//   collective_probe suite COUNT...   with these counts, in this communicator only
//   collective_probe until-end KIND... for each kind a communicator, in which all call it until
//   rank
//                                     VICTIM is killed in the middle; each says how its call ended
//   collective_probe join KEY         rank VICTIM is killed when the rendezvous has its KEY, or
//                                     before it joins if KEY is "nothing"; each says how that ended
//   collective_probe differ           the last rank calls something else than the others
//   collective_probe generations N    makes N communicators one after the other, all ranks of which
//                                     leave at the same time, and says how long that took at most
// VICTIM is in the environment. In `join`, rank LATE joins once the victim is dead.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "collective/store.h"
#include "tests/fakes/collective_suite.h"

namespace hvdray {
namespace {

int Print(const std::string& line, int code = 0) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
  return code;
}

int RunSuite(const CommunicatorOptions& options, std::vector<size_t> counts) {
  const bool is_short = !counts.empty();
  if (!is_short) counts = {0, 1, 777, 70001};
  int problems = 0;
  const auto check = [&](Result<std::unique_ptr<Communicator>> made, const std::string& name) {
    if (!made.ok()) {
      Print(fmt::format("{}: {}", name, made.status().ToString()));
      ++problems;
      return;
    }
    for (const std::string& problem : CheckCollectives(**made, counts)) {
      Print(fmt::format("{}: {}", name, problem));
      ++problems;
    }
    Print(
        fmt::format("{}: {} {} of {}", name, (*made)->backend(), (*made)->rank(), (*made)->size()));
  };
  check(MakeCommunicator(options), "all");
  if (is_short) return problems == 0 ? 0 : 1;
  // A communicator is for one generation: the process then builds the next.
  CommunicatorOptions next = options;
  next.scope += "_next";
  check(MakeCommunicator(next), "next");
  std::vector<int> members;
  for (int rank = options.size - 1; rank >= 0; rank -= 2) members.push_back(rank);
  if ((options.size - 1 - options.rank) % 2 == 0) {
    check(MakeSubCommunicator(options, members), "every second");
  }
  return problems == 0 ? 0 : 1;
}

using Clock = std::chrono::system_clock;  // of this machine, which all ranks of a test share

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr const char* kNoKey = "nothing";

// Where ranks tell each other of deaths.
Store DeathsOf(const CommunicatorOptions& options) {
  return {options.rendezvous_host, options.rendezvous_port, "probe_deaths", options.timeout};
}

// For the thread that kills its process: what the process is about.
struct Death {
  std::atomic<Clock::rep> time{0};  // just before the signal
  [[noreturn]] void Now() {
    time = Clock::now().time_since_epoch().count();
    for (;;) ::kill(::getpid(), SIGKILL);
  }
};

// Runs `life` in a child process that ends by Death::Now(), and publishes when that was.
int LetDie(const CommunicatorOptions& options, const std::function<int(Death&)>& life) {
  void* shared =
      ::mmap(nullptr, sizeof(Death), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Print("mmap has failed", 1);
  auto* death = new (shared) Death;  // NOLINT: in memory that munmap() frees
  const pid_t child = ::fork();
  if (child == 0) ::_exit(life(*death));
  int end = 0;
  ::waitpid(child, &end, 0);
  if (!WIFSIGNALED(end) || WTERMSIG(end) != SIGKILL) return Print("it was not killed", 1);
  const Status told = DeathsOf(options).Set(options.scope, std::to_string(death->time.load()));
  (void)::munmap(shared, sizeof(Death));
  return told.ok() ? 0 : Print(told.ToString(), 1);
}

Result<Clock::time_point> TimeOfDeath(const CommunicatorOptions& options) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, DeathsOf(options).Get(options.scope, kPatience));
  return Clock::time_point(Clock::duration(std::stoll(text)));
}

// "rank 1: WHAT: after 12 ms: STATUS", from the victim's death to `end`.
int PrintEnd(const CommunicatorOptions& options, const std::string& what, const Status& status,
             Clock::time_point end) {
  const Result<Clock::time_point> death = TimeOfDeath(options);
  if (!death.ok()) return Print(death.status().ToString(), 1);
  const auto late = std::chrono::duration_cast<std::chrono::milliseconds>(end - *death);
  return Print(fmt::format("rank {}: {}: after {} ms: {}", options.rank, what, late.count(),
                           status.ToString()));
}

// The calls that ranks repeat until one of them dies. Enough bytes to last a while.
class Calls {
 public:
  Calls(Communicator& communicator, const std::string& kind)
      : communicator_(communicator), kind_(kind), a_(kCount * Size(), 1.0F), b_(a_) {
    for (size_t peer = 0; peer < Size(); ++peer) {
      const auto rank = static_cast<size_t>(communicator.rank());
      counts_.push_back(kCount - peer);
      send_counts_.push_back(kCount - (rank + 2 * peer) % 3);
      recv_counts_.push_back(kCount - (peer + 2 * rank) % 3);
      tensors_.push_back({a_.data() + peer * kCount, kCount / (peer + 1)});
    }
  }

  // Returns why it could not go on.
  Status Repeat() {
    const std::function<Status()> call = Call();
    for (;;) {
      ++marks_;
      Status status = call();
      ++marks_;
      // Roots that only send, or only receive, are told by the next call that needs the other.
      if (status.ok()) status = communicator_.Barrier();
      if (!status.ok()) return status;
    }
  }

  // For another thread: returns while Repeat() is in a call of the kind, if possible in the middle,
  // and all ranks have joined: they have passed a barrier.
  void AwaitMiddle() const {
    constexpr int kTries = 2000;
    constexpr uint64_t kPastBarrier = 3;
    constexpr std::chrono::microseconds kWhile{100};  // few barriers take that long
    while (marks_ < kPastBarrier) std::this_thread::sleep_for(kWhile);
    for (int i = 0;; ++i) {
      const uint64_t mark = marks_;
      std::this_thread::sleep_for(i < kTries ? kWhile : kWhile.zero());
      if (mark % 2 == 1 && marks_ == mark) return;
    }
  }

 private:
  static constexpr size_t kCount = 100000;
  static constexpr DataType kType = DataType::kFloat32;

  size_t Size() const { return static_cast<size_t>(communicator_.size()); }

  std::function<Status()> Call() {
    Communicator& ranks = communicator_;
    const float* a = a_.data();
    float* b = b_.data();
    const std::map<std::string, std::function<Status()>> calls{
        {"all_reduce", [=, &ranks] { return ranks.AllReduce(a, b, kCount, kType, kOp); }},
        {"reduce", [=, &ranks] { return ranks.Reduce(a, b, kCount, kType, kOp, 0); }},
        {"broadcast", [=, &ranks] { return ranks.Broadcast(b, kCount, kType, 0); }},
        {"all_gather", [=, &ranks] { return ranks.AllGather(a, b, kCount, kType); }},
        {"all_gather_v", [=, this, &ranks] { return ranks.AllGatherV(a, b, counts_, kType); }},
        {"reduce_scatter", [=, &ranks] { return ranks.ReduceScatter(a, b, kCount, kType, kOp); }},
        {"all_to_all", [=, &ranks] { return ranks.AllToAll(a, b, kCount, kType); }},
        {"all_to_all_v",
         [=, this, &ranks] { return ranks.AllToAllV(a, send_counts_, b, recv_counts_, kType); }},
        {"gather", [=, &ranks] { return ranks.Gather(a, b, kCount, kType, 0); }},
        {"scatter", [=, &ranks] { return ranks.Scatter(a, b, kCount, kType, 0); }},
        {"barrier", [&ranks] { return ranks.Barrier(); }},
        {"send_recv", [this] { return SendAndRecv(); }},
        {"group_all_reduce",
         [this, &ranks] { return ranks.GroupAllReduce(tensors_, kType, kOp); }}};
    return calls.at(kind_);
  }

  Status SendAndRecv() {
    const int size = communicator_.size();
    const int rank = communicator_.rank();
    const auto send = [&] {
      return communicator_.Send(a_.data(), kCount, kType, (rank + 1) % size);
    };
    const auto recv = [&] {
      return communicator_.Recv(b_.data(), kCount, kType, (rank + size - 1) % size);
    };
    Status status = rank == 0 ? send() : recv();
    if (status.ok()) status = rank == 0 ? recv() : send();
    return status;
  }

  static constexpr ReduceOp kOp = ReduceOp::kMax;

  Communicator& communicator_;
  std::string kind_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<size_t> counts_;
  std::vector<size_t> send_counts_;
  std::vector<size_t> recv_counts_;
  std::vector<Tensor> tensors_;
  std::atomic<uint64_t> marks_{0};  // odd in a call
};

int RunUntilEnd(CommunicatorOptions options, const std::string& kind, int victim) {
  options.scope += "_" + kind;
  const auto live = [&](Death* death) {
    Result<std::unique_ptr<Communicator>> made = MakeCommunicator(options);
    if (!made.ok()) return Print(made.status().ToString(), 1);
    Calls calls(**made, kind);
    std::thread killer;
    if (death != nullptr) {
      killer = std::thread([&] {
        calls.AwaitMiddle();
        death->Now();
      });
    }
    const Status status = calls.Repeat();
    const auto end = Clock::now();
    if (killer.joinable()) killer.join();
    if (const int code = PrintEnd(options, kind, status, end); code != 0) return code;
    // It has ended for good: the next call says so at once.
    const Status again = (*made)->Barrier();
    return again.code() == ErrorCode::kAborted ? 0 : Print("not aborted for good", 1);
  };
  if (options.rank == victim) return LetDie(options, [&](Death& death) { return live(&death); });
  return live(nullptr);
}

int RunJoin(const CommunicatorOptions& options, const std::string& key, int victim, int late) {
  const auto live = [&] {
    Result<std::unique_ptr<Communicator>> made = MakeCommunicator(options);
    Status status = made.ok() ? Status() : made.status();
    while (status.ok()) status = (*made)->Barrier();  // it was killed only after that
    return status;
  };
  if (options.rank == victim) {
    return LetDie(options, [&](Death& death) {
      if (key == kNoKey) death.Now();
      std::thread killer([&] {
        Store store(options.rendezvous_host, options.rendezvous_port, options.scope,
                    options.timeout);
        const Result<std::string> value = store.Get(key, kPatience);
        if (!value.ok()) std::_Exit(Print(value.status().ToString(), 1));
        death.Now();
      });
      const Status status = live();
      killer.join();
      return Print(status.ToString(), 1);
    });
  }
  if (options.rank == late) {
    const Result<Clock::time_point> death = TimeOfDeath(options);
    if (!death.ok()) return Print(death.status().ToString(), 1);
  }
  const Status status = live();
  return PrintEnd(options, "join", status, Clock::now());
}

int RunDiffer(const CommunicatorOptions& options) {
  Result<std::unique_ptr<Communicator>> made = MakeCommunicator(options);
  if (!made.ok()) return Print(made.status().ToString(), 1);
  Communicator& ranks = **made;
  const size_t size = static_cast<size_t>(ranks.size());
  constexpr DataType kType = DataType::kFloat32;
  std::vector<double> from(12 * size);
  std::vector<double> to(12 * size);
  const void* a = from.data();
  void* b = to.data();
  const auto gather_v = [&](size_t last) {
    std::vector<size_t> counts(size, 5);
    counts.back() = last;
    return ranks.AllGatherV(a, b, counts, kType);
  };
  const auto all_reduce = [&](size_t count, DataType type, ReduceOp op) {
    return ranks.AllReduce(a, b, count, type, op);
  };
  using Call = std::function<Status()>;
  const Call usual = [&] { return all_reduce(10, kType, ReduceOp::kSum); };
  const std::tuple<const char*, Call, Call> calls[] = {
      {"count", usual, [&] { return all_reduce(12, kType, ReduceOp::kSum); }},
      {"dtype", usual, [&] { return all_reduce(10, DataType::kInt64, ReduceOp::kSum); }},
      {"op", usual, [&] { return all_reduce(10, kType, ReduceOp::kMax); }},
      {"root", [&] { return ranks.Broadcast(b, 10, kType, 0); },
       [&] { return ranks.Broadcast(b, 10, kType, 1); }},
      {"kind", usual, [&] { return ranks.AllGather(a, b, 10, kType); }},
      {"counts", [&] { return gather_v(5); }, [&] { return gather_v(6); }},
      {"barrier", usual, [&] { return ranks.Barrier(); }}};
  for (const auto& [name, call, other] : calls) {
    const Status status = ranks.rank() + 1 == ranks.size() ? other() : call();
    Print(fmt::format("rank {}: {}: {}", ranks.rank(), name, status.ToString()));
    // Nothing has been begun, so all go on.
    const Status next = ranks.Barrier();
    Print(fmt::format("rank {}: after {}: {}", ranks.rank(), name, next.ToString()));
  }
  return 0;
}

int RunGenerations(CommunicatorOptions options, int count) {
  const std::string scope = options.scope;
  Clock::duration longest{};
  for (int i = 0; i < count; ++i) {
    options.scope = fmt::format("{}_{}", scope, i);
    Result<std::unique_ptr<Communicator>> made = MakeCommunicator(options);
    std::vector<float> a(1000, 1.0F);
    const Status status = made.ok()
                              ? (*made)->AllReduce(a.data(), a.data(), i % 2 == 0 ? 2 : a.size(),
                                                   DataType::kFloat32, ReduceOp::kMax)
                              : made.status();
    if (!status.ok()) return Print(status.ToString(), 1);
    const auto start = Clock::now();
    made->reset();
    longest = std::max(longest, Clock::now() - start);
  }
  return Print(fmt::format("rank {}: left within {} ms", options.rank,
                           std::chrono::duration_cast<std::chrono::milliseconds>(longest).count()));
}

int Main(int argc, char** argv) {
  const Environment environment = Environment::FromProcess();
  const Result<CommunicatorOptions> options = CommunicatorOptionsFrom(environment, "probe");
  if (!options.ok()) return Print(options.status().ToString(), 1);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string mode = words.empty() ? "" : words[0];
  const int victim = std::stoi(environment.GetOr("VICTIM", "-1"));
  if (mode == "suite") {
    std::vector<size_t> counts;
    for (size_t i = 1; i < words.size(); ++i) counts.push_back(std::stoul(words[i]));
    return RunSuite(*options, std::move(counts));
  }
  if (mode == "until-end" && words.size() > 1) {
    int code = 0;
    for (size_t i = 1; i < words.size() && code == 0; ++i) {
      code = RunUntilEnd(*options, words[i], victim);
    }
    return code;
  }
  if (mode == "join" && words.size() == 2) {
    return RunJoin(*options, words[1], victim, std::stoi(environment.GetOr("LATE", "-1")));
  }
  if (mode == "differ") return RunDiffer(*options);
  if (mode == "generations" && words.size() == 2) {
    return RunGenerations(*options, std::stoi(words[1]));
  }
  return Print("usage: see tests/tools/collective_probe.cc", 2);
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) { return hvdray::Main(argc, argv); }
