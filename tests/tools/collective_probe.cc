// SPDX-License-Identifier: Apache-2.0
// A rank of tests/integration/collective_test.py.
//   collective_probe suite          every collective, in this communicator and in smaller ones
//   collective_probe until-end KIND repeats one collective until it fails, and says how
// Rank VICTIM (environment) is a child process, which is killed in the middle.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "collective/communicator.h"
#include "tests/fakes/collective_suite.h"

namespace hvdray {
namespace {

int Print(const std::string& line, int code = 0) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
  return code;
}

int RunSuite(const CommunicatorOptions& options) {
  constexpr size_t kCounts[] = {0, 1, 777, 70001};
  int problems = 0;
  const auto check = [&](Result<std::unique_ptr<Communicator>> made, const std::string& name) {
    if (!made.ok()) {
      Print(fmt::format("{}: {}", name, made.status().ToString()));
      ++problems;
      return;
    }
    for (const std::string& problem : CheckCollectives(**made, kCounts)) {
      Print(fmt::format("{}: {}", name, problem));
      ++problems;
    }
    Print(
        fmt::format("{}: {} {} of {}", name, (*made)->backend(), (*made)->rank(), (*made)->size()));
  };
  check(MakeCommunicator(options), "all");
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

Status Repeat(Communicator& communicator, const std::string& kind) {
  constexpr size_t kCount = 100000;
  const auto size = static_cast<size_t>(communicator.size());
  std::vector<float> a(kCount * size, 1.0F);
  std::vector<float> b(kCount * size, 1.0F);
  const int next = (communicator.rank() + 1) % communicator.size();
  const int previous = (communicator.rank() + communicator.size() - 1) % communicator.size();
  const auto type = DataType::kFloat32;
  const std::map<std::string, std::function<Status()>> calls{
      {"all_reduce",
       [&] { return communicator.AllReduce(a.data(), b.data(), kCount, type, ReduceOp::kMax); }},
      {"reduce",
       [&] { return communicator.Reduce(a.data(), b.data(), kCount, type, ReduceOp::kMax, 0); }},
      {"broadcast", [&] { return communicator.Broadcast(a.data(), kCount, type, 0); }},
      {"all_gather", [&] { return communicator.AllGather(a.data(), b.data(), kCount, type); }},
      {"reduce_scatter",
       [&] {
         return communicator.ReduceScatter(a.data(), b.data(), kCount, type, ReduceOp::kMax);
       }},
      {"all_to_all", [&] { return communicator.AllToAll(a.data(), b.data(), kCount, type); }},
      {"gather", [&] { return communicator.Gather(a.data(), b.data(), kCount, type, 0); }},
      {"scatter", [&] { return communicator.Scatter(a.data(), b.data(), kCount, type, 0); }},
      {"barrier", [&] { return communicator.Barrier(); }},
      {"send_recv", [&] {
         const auto send = [&] { return communicator.Send(a.data(), kCount, type, next); };
         const auto recv = [&] { return communicator.Recv(b.data(), kCount, type, previous); };
         Status status = communicator.rank() == 0 ? send() : recv();
         if (status.ok()) status = communicator.rank() == 0 ? recv() : send();
         return status;
       }}};
  for (;;) {
    Status status = calls.at(kind)();
    // Roots that only send, or only receive, are told by the next call that needs the other.
    if (status.ok()) status = communicator.Barrier();
    if (!status.ok()) return status;
  }
}

int RunUntilEnd(const CommunicatorOptions& options, const std::string& kind, int victim) {
  if (options.rank == victim) {
    const pid_t child = ::fork();
    if (child != 0) {
      int end = 0;
      ::waitpid(child, &end, 0);
      return 0;
    }
  }
  Result<std::unique_ptr<Communicator>> made = MakeCommunicator(options);
  if (!made.ok()) return Print(made.status().ToString(), 1);
  std::thread killer;
  if (options.rank == victim) {
    killer = std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      ::kill(::getpid(), SIGKILL);
    });
  }
  const Status status = Repeat(**made, kind);
  Print(fmt::format("rank {}: {}", options.rank, status.ToString()));
  // It has ended for good: the next call says so at once.
  const Status again = (*made)->Barrier();
  return again.code() == ErrorCode::kAborted ? 0 : Print("not aborted for good", 1);
}

int Main(int argc, char** argv) {
  const Environment environment = Environment::FromProcess();
  const Result<CommunicatorOptions> options = CommunicatorOptionsFrom(environment, "probe");
  if (!options.ok()) return Print(options.status().ToString(), 1);
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "suite") return RunSuite(*options);
  if (mode == "until-end" && argc == 3) {
    return RunUntilEnd(*options, argv[2], std::stoi(environment.GetOr("VICTIM", "-1")));
  }
  return Print("usage: collective_probe suite | until-end KIND", 2);
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) { return hvdray::Main(argc, argv); }
