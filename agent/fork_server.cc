// SPDX-License-Identifier: Apache-2.0
#include "agent/fork_server.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/fd.h"
#include "base/log.h"
#include "base/passed_descriptors.h"
#include "base/sealed_memory.h"
#include "base/text.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

constexpr Duration kForkLimit = std::chrono::seconds(60);
constexpr Duration kServerEndLimit = std::chrono::seconds(1);
constexpr size_t kMaxAnswer = size_t{64} << 10;
constexpr size_t kMaxOutputLine = 8192;
constexpr size_t kMaxWhy = 1000;  // bytes of wire::Warmed::why
constexpr size_t kMaxModuleName = 256;

void AddList(std::vector<std::string>& texts, const std::vector<std::string>& list) {
  texts.push_back(std::to_string(list.size()));
  texts.insert(texts.end(), list.begin(), list.end());
}

// Passes on the complete lines of `text` and keeps the rest.
template <typename Take>
void TakeLines(std::string& text, size_t longest, const Take& take) {
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    take(std::string_view(text).substr(begin, end - begin));
  }
  text.erase(0, begin);
  if (text.size() <= longest) return;
  take(text);
  text.clear();
}

void TellLine(std::string_view line) { Tell(LogLevel::kInfo, "preload", line); }

bool IsOfOneWorker(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return name == "HVDRAY_GENERATION" || name.ends_with("VISIBLE_DEVICES");
}

bool IsShareOfThreads(const wire::StartGeneration& start, std::string_view entry) {
  const size_t equals = entry.find('=');
  return start.threads > 0 && entry.substr(equals + 1) == std::to_string(start.threads) &&
         std::ranges::find(kThreadNames, entry.substr(0, equals)) != kThreadNames.end();
}

}  // namespace

Result<ForkServerPlan> PlanForkServer(const wire::StartGeneration& start,
                                      const std::vector<std::string>& shared,
                                      const std::vector<std::string>& own) {
  ForkServerPlan plan;
  HVDRAY_ASSIGN_OR_RETURN(plan.call, ReadPythonCall(start.command));
  plan.command = start.command;
  plan.working_directory = start.working_directory;
  for (const std::string& entry : shared) {
    if (IsOfOneWorker(entry)) continue;
    (IsShareOfThreads(start, entry) ? plan.threads : plan.environment).push_back(entry);
  }
  std::copy_if(own.begin(), own.end(), std::back_inserter(plan.environment),
               [](const std::string& entry) { return entry.starts_with("PYTHON"); });
  plan.modules = start.preload;
  plan.has_channel = start.has_channel;
  return plan;
}

std::vector<std::string> ServerCommand(const ForkServerPlan& plan) {
  const auto size_of = [](const std::vector<std::string>& words) {
    size_t size = 0;
    for (const std::string& word : words) size += word.size() + 1;
    return size;
  };
  std::vector<std::string> command = plan.call.interpreter;
  command.emplace_back("-");
  const size_t size = size_of(command) + 1;  // with the end of one more word
  if (const size_t wanted = size_of(plan.command); wanted >= size) {
    std::string name = "hvdray-fork-server";
    name.resize(wanted - size, ' ');
    command.push_back(std::move(name));
  }
  return command;
}

ForkServer::ForkServer(Loop& loop, ForkServerPlan plan, Duration limit,
                       std::function<void(const wire::Warmed&)> on_settled)
    : loop_(loop), plan_(std::move(plan)), limit_(limit), on_settled_(std::move(on_settled)) {
  // Even a failure comes from the loop.
  start_timer_ = loop_.After(Duration::zero(), [this] {
    start_timer_.Cancel();
    Start();
  });
}

ForkServer::~ForkServer() {
  if (process_.pid <= 0) return;
  ::kill(-process_.pid, SIGKILL);
  if (AwaitEnd(process_.pidfd.get(), kServerEndLimit)) ::waitpid(process_.pid, nullptr, WNOHANG);
}

void ForkServer::Start() {
  const ExecPlan exec =
      PlanExec(ServerCommand(plan_), FindPath(plan_.environment), plan_.working_directory);
  const Result<UniqueFd> text = MakeSealedMemory("hvdray-fork-server", ForkServerText());
  if (exec.paths.empty() || !text.ok()) {
    return Settle({.why = exec.paths.empty() ? ::strerror(exec.error) : text.status().message()});
  }
  SpawnRequest request;
  request.plan = &exec;
  request.shared_environment = plan_.environment;
  request.own_environment = plan_.threads;
  request.stdin_fd = text->get();
  request.has_channel = true;
  if (const ExecFailure failure = Spawn(request, process_); failure != ExecFailure()) {
    return Settle({.why = fmt::format("can't start Python: {}", ::strerror(failure.error))});
  }
  ::getrlimit(RLIMIT_NOFILE, &files_);
  doing_ = "the start of Python";
  limit_timer_ = loop_.After(limit_, [this] {
    End(fmt::format("{} did not end within {:g} s", doing_, Seconds(limit_).count()));
  });
  control_watch_ = loop_.OnFd(process_.channel.get(), FdEvent::kRead, [this] { OnReadable(); });
  exit_watch_ = loop_.OnFd(process_.pidfd.get(), FdEvent::kRead, [this] {
    OnReadable();
    Reap();
  });
  const std::array<const UniqueFd*, 2> pipes = {&process_.stdout_pipe, &process_.stderr_pipe};
  for (size_t i = 0; i < pipes.size(); ++i) {
    output_watches_[i] = loop_.OnFd(pipes[i]->get(), FdEvent::kRead, [this, i] { OnOutput(i); });
  }
  if (const Status sent = SendPlan(); !sent.ok()) End(sent.message());
}

Status ForkServer::SendPlan() {
  std::vector<std::string> texts = {std::to_string(::getpid()), plan_.has_channel ? "1" : "0"};
  AddList(texts, plan_.command);
  AddList(texts, plan_.call.program);
  AddList(texts, plan_.modules);
  return Send(texts, {});
}

Status ForkServer::Send(const std::vector<std::string>& texts,
                        const std::vector<int>& descriptors) {
  std::string bytes;
  for (const std::string& text : texts) bytes.append(text).push_back('\0');
  HVDRAY_ASSIGN_OR_RETURN(const UniqueFd memory, MakeSealedMemory("hvdray-fork-request", bytes));
  std::vector<int> all = {memory.get()};
  all.insert(all.end(), descriptors.begin(), descriptors.end());
  // Never full: each message waits for the answer to the one before.
  const ssize_t sent = SendWithDescriptors(process_.channel.get(), "r", all);
  // Where it has ended already, its exit tells why.
  const bool has_ended = sent < 0 && (errno == EPIPE || errno == ECONNRESET);
  return sent == 1 || has_ended ? Status() : ErrnoStatus("sendmsg", errno);
}

void ForkServer::Fork(ForkRequest request, std::function<void(Forked)> on_forked) {
  HVDRAY_CHECK(request.ends.size() <= kMaxForks);
  requests_.push_back({std::move(request), std::move(on_forked), {}});
  if (requests_.size() > 1) return;
  start_timer_ = loop_.After(Duration::zero(), [this] {
    start_timer_.Cancel();
    SendNext();
  });
}

void ForkServer::SendNext() {
  if (requests_.empty()) return;
  Open& next = requests_.front();
  ForkRequest& request = next.request;
  std::vector<std::string> texts = {std::to_string(request.ends.size()),
                                    request.cgroup_procs.is_valid() ? "1" : "0",
                                    plan_.has_channel ? "1" : "0"};
  AddList(texts, request.shared_environment);
  for (const std::vector<std::string>& own : request.own_environments) AddList(texts, own);
  Result<Pipe> gate = MakePipe();
  Status sent = gate.ok() && process_.pid > 0
                    ? Status()
                    : Status(ErrorCode::kOutOfResources, "no pipe, or no fork server");
  if (sent.ok()) {
    std::vector<int> descriptors = {gate->read_end.get()};
    if (request.cgroup_procs.is_valid()) descriptors.push_back(request.cgroup_procs.get());
    for (const ChildEnds& ends : request.ends) {
      descriptors.insert(descriptors.end(), {ends.stdin_fd.get(), ends.stdout_pipe.get(),
                                             ends.stderr_pipe.get(), ends.report.get()});
      if (plan_.has_channel) descriptors.push_back(ends.channel.get());
    }
    sent = Send(texts, descriptors);
    next.gate = std::move(gate->write_end);
  }
  if (!sent.ok()) {
    Log(LogLevel::kWarning, "agent", "fork server: {}", sent.message());
    return Answer({});
  }
  request.ends.clear();  // the workers' own now
  limit_timer_ = loop_.After(kForkLimit, [this] { End("it does not answer"); });
}

void ForkServer::OnReadable() {
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(process_.channel.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) {
      lines_.append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n == 0) control_watch_.Cancel();  // its exit follows
    break;
  }
  TakeLines(lines_, kMaxAnswer, [this](std::string_view line) { OnLine(line); });
}

void ForkServer::OnLine(std::string_view line) {
  const std::string_view verb = line.substr(0, line.find(' '));
  const std::string_view rest = line.substr(std::min(verb.size() + 1, line.size()));
  if (verb == "importing") {
    doing_ = fmt::format("import {}", rest);
  } else if (verb == "cold") {
    End(std::string(rest));
  } else if (verb == "warm") {
    wire::Warmed result{.is_warm = true};
    std::vector<std::string_view> words = BlankSeparated(rest, " ");
    if (!words.empty()) {
      result.took_ms = ParseInteger<uint32_t>(words[0]).value_or(0);
      words.erase(words.begin());
    }
    if (words.size() > wire::kMaxPreload) words.resize(wire::kMaxPreload);
    std::erase_if(words, [](std::string_view name) { return name.size() > kMaxModuleName; });
    result.modules.assign(words.begin(), words.end());
    EndOutput();
    Settle(std::move(result));
  } else if (verb == "forked") {
    if (requests_.empty()) return;
    Forked answer{.pids = {}, .gate = std::move(requests_.front().gate)};
    for (const std::string_view word : BlankSeparated(rest, " ")) {
      answer.pids.push_back(ParseInteger<pid_t>(word).value_or(-EIO));
    }
    RaiseFiles(answer.pids);
    Answer(std::move(answer));
  }
}

void ForkServer::Settle(wire::Warmed result) {
  if (is_settled_) return;
  is_settled_ = true;
  was_warm_ = result.is_warm;
  limit_timer_.Cancel();
  result.why = ShownText(result.why, kMaxWhy);
  on_settled_(result);
}

void ForkServer::Answer(Forked answer) {
  limit_timer_.Cancel();
  const auto on_forked = std::move(requests_.front().on_forked);
  requests_.pop_front();
  SendNext();
  on_forked(std::move(answer));
}

// This process may have raised its own since.
void ForkServer::RaiseFiles(const std::vector<pid_t>& pids) const {
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  if (now.rlim_cur == files_.rlim_cur && now.rlim_max == files_.rlim_max) return;
  for (const pid_t pid : pids) {
    if (pid > 0) ::prlimit(pid, RLIMIT_NOFILE, &now, nullptr);
  }
}

// What it printed goes to the user, once a host.
void ForkServer::OnOutput(size_t index) {
  const UniqueFd& pipe = index == 0 ? process_.stdout_pipe : process_.stderr_pipe;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(pipe.get(), buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) output_[index].append(buffer, static_cast<size_t>(n));
  }
  if (n == 0) output_watches_[index].Cancel();
  TakeLines(output_[index], kMaxOutputLine, &TellLine);
}

void ForkServer::EndOutput() {
  for (size_t i = 0; i < output_.size(); ++i) {
    if (output_watches_[i].is_active()) OnOutput(i);
    if (!output_[i].empty()) TellLine(output_[i]);
    output_[i].clear();
  }
}

void ForkServer::End(const std::string& why) {
  limit_timer_.Cancel();
  is_killed_ = true;
  if (process_.pid > 0) ::kill(-process_.pid, SIGKILL);
  if (!is_settled_) Settle({.why = why});
}

void ForkServer::Reap() {
  ::kill(-process_.pid, SIGKILL);  // what an import has started; before the number is free
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(process_.pid), &info, WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0) {
    return;
  }
  exit_watch_.Cancel();
  control_watch_.Cancel();
  EndOutput();
  for (Watch& watch : output_watches_) watch.Cancel();
  process_ = {};
  limit_timer_.Cancel();
  const std::string how = info.si_code == CLD_EXITED ? fmt::format("exit code {}", info.si_status)
                                                     : fmt::format("signal {}", info.si_status);
  if (!is_settled_) {
    Settle({.why = fmt::format("Python ended ({}) during {}", how, doing_)});
  } else if (was_warm_ && !is_killed_) {
    Log(LogLevel::kWarning, "agent", "the fork server ended ({})", how);
  }
  while (!requests_.empty()) {
    const auto on_forked = std::move(requests_.front().on_forked);
    requests_.pop_front();
    on_forked({});
  }
}

}  // namespace hvdray
