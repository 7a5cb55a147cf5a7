// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/cluster_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/log.h"
#include "launcher/engine/directory_sync.h"
#include "launcher/report/worker_lines.h"

namespace hvdray {
namespace {

constexpr size_t kMaxAnswer = size_t{1} << 20;
constexpr Duration kCopyStall = std::chrono::seconds(60);
// A command that ignores SIGTERM has this long once the launcher is gone.
constexpr uint32_t kGraceMs = 2000;

// What an interactive bash says because it has no terminal.
constexpr std::array<std::string_view, 2> kShellNoise = {"bash: cannot set terminal process group",
                                                         "bash: no job control in this shell"};

bool IsShellNoise(std::string_view line) {
  return std::any_of(kShellNoise.begin(), kShellNoise.end(), [line](std::string_view noise) {
    return line.find(noise) != std::string_view::npos;
  });
}

std::string WithoutShellNoise(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t size = end == std::string_view::npos ? text.size() : end + 1;
    if (!IsShellNoise(text.substr(0, size))) kept += text.substr(0, size);
    text.remove_prefix(size);
  }
  return kept;
}

/// `text` without the escape sequences that colour it (ESC [ … letter).
std::string WithoutColors(std::string_view text) {
  std::string kept;
  for (;;) {
    const size_t escape = text.find("\x1b[");
    kept += text.substr(0, escape);
    if (escape == std::string_view::npos) return kept;
    text.remove_prefix(escape + 2);
    const size_t end = text.find_first_not_of("0123456789;?");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

/// `why` without what the driver says itself: on which node, and what was to be done.
Status WithoutContext(const Status& why, const std::vector<std::string>& contexts) {
  std::string_view message = why.message();
  for (const std::string& context : contexts) {
    if (message.starts_with(context)) message.remove_prefix(context.size());
  }
  return {why.code(), std::string(message), why.hint()};
}

wire::Welcome WelcomeFor(const ClusterRunOptions& options) {
  wire::Welcome welcome;
  welcome.job_id = options.job_id;
  welcome.grace_ms = kGraceMs;
  return welcome;
}

wire::StartGeneration OrderOf(const ScriptPlace& place, const NodeTask& task) {
  wire::StartGeneration start;
  start.size = 1;
  start.local_size = 1;
  start.host_name = place.node;
  start.is_torch_environment = false;
  start.is_on_own_environment = true;
  start.stdin_rank = task.input.empty() ? -1 : 0;
  start.workers = {wire::WorkerSlot{}};
  start.command = ScriptCommand(place, task.verb, task.arguments);
  return start;
}

}  // namespace

/// A node, its present agent and what that does.
struct ClusterRun::Node {
  int number = 0;
  ScriptPlace place;
  int agent = -1;
  Generation generation = 0;
  bool is_ready = false;
  bool is_busy = false;
  bool is_shown = false;
  std::string answer;
  std::optional<LineTagger> out, err;
  LastLines last;
  wire::ExitStatus status;
  std::unique_ptr<DirectorySync> copy;
  std::optional<SyncStats> copied;
};

ClusterRun::ClusterRun(Loop& loop, Transport& transport, ClusterDriver& driver,
                       ClusterRunOptions options)
    : loop_(loop),
      options_(std::move(options)),
      agents_(loop, transport, {}, options_.build, WelcomeFor(options_), *this),
      driving_(loop, driver, *this),
      driver_(driver) {
  for (const ScriptPlace& place : options_.places) {
    auto node = std::make_unique<Node>();
    node->number = static_cast<int>(nodes_.size());
    node->place = place;
    nodes_.push_back(std::move(node));
  }
}

ClusterRun::~ClusterRun() = default;

ClusterRun::Outcome ClusterRun::Run() {
  const UserSignals signals(loop_, MakeSignalHandlers());
  const TimePoint now = loop_.Now();
  for (const ClusterEffect& effect : driver_.Begin(now)) {
    OnEffect(effect, now);
    std::visit([this](const auto& one) { Apply(one); }, effect);
  }
  driving_.Start();
  loop_.Run();
  agents_.EndStarts();  // while another ^C cannot end us before it is done
  return outcome_;
}

SignalHandlers ClusterRun::MakeSignalHandlers() {
  SignalHandlers handlers;
  handlers.on_stop = [this](int signo) {
    // At a second signal, does not wait for the agents: they end with their links.
    if (options_.events != nullptr) options_.events->OnSignal(signo, loop_.Now());
    if (options_.display != nullptr) options_.display->End();
    if (std::exchange(outcome_.signo, signo) != 0) return loop_.Stop();
    driving_.Finish();
    Close();
  };
  handlers.on_pause = [this](const std::function<void()>& stop_now) {
    agents_.SendAll({0, wire::Heartbeat{true}});
    if (options_.display != nullptr) options_.display->Pause();
    stop_now();
  };
  handlers.on_resume = [this] {
    agents_.SendAll({0, wire::Heartbeat{false}});
    if (options_.display != nullptr) options_.display->Resume();
  };
  return handlers;
}

ClusterRun::Node* ClusterRun::NodeOf(int agent) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [agent](const auto& node) { return node->agent == agent; });
  return found == nodes_.end() ? nullptr : found->get();
}

void ClusterRun::OnFact(const ClusterEvent& fact, TimePoint now) {
  if (options_.events != nullptr) options_.events->OnFact(fact, now);
  if (options_.display != nullptr) options_.display->OnFact(fact);
}

void ClusterRun::OnEffect(const ClusterEffect& effect, TimePoint now) {
  if (options_.events != nullptr) options_.events->OnEffect(effect, now);
  if (options_.display != nullptr) options_.display->OnEffect(effect, now);
}

// ---- effects

void ClusterRun::Apply(const cluster_effect::LogIn& effect) {
  Node& node = *nodes_[static_cast<size_t>(effect.node)];
  node.agent = agents_.Add(node.place.node);
  node.is_ready = false;
  agents_.Start(node.agent);
}

void ClusterRun::Apply(const cluster_effect::Run& effect) {
  Node& node = *nodes_[static_cast<size_t>(effect.node)];
  HVDRAY_CHECK(!node.is_busy);
  node.is_busy = true;
  node.answer.clear();
  node.last.Clear();
  node.status = {};
  if (!node.is_ready) {
    TaskResult lost;
    lost.why = {ErrorCode::kAgentLost, "the link to the node is lost"};
    return EndTask(node, std::move(lost));
  }
  ++node.generation;
  switch (effect.task.kind) {
    case NodeTask::Kind::kScript:
      return RunScript(node, effect.task);
    case NodeTask::Kind::kFiles:
      return CopyFiles(node, options_.files);
    case NodeTask::Kind::kBootstrap:
      return CopyFiles(node, options_.bootstrap);
  }
}

void ClusterRun::RunScript(Node& node, const NodeTask& task) {
  node.is_shown = task.is_shown;
  const std::string tag = fmt::format("[{}] ", node.place.node);
  node.out.emplace(tag);
  node.err.emplace(tag);
  agents_.Send(node.agent, {node.generation, OrderOf(node.place, task)});
  if (task.input.empty()) return;
  wire::Stdin input;
  input.bytes = task.input;
  input.is_end = true;
  agents_.Send(node.agent, {node.generation, std::move(input)});
}

void ClusterRun::CopyFiles(Node& node, std::span<const SyncedDirectory> files) {
  DirectorySync::Handlers handlers;
  handlers.send = [this, &node](int agent, wire::Body body) {
    agents_.Send(agent, {node.generation, std::move(body)});
  };
  handlers.on_host_done = [&node](int /*agent*/, const SyncStats& stats,
                                  const std::vector<std::string>& /*roots*/) {
    node.copied = stats;
  };
  handlers.on_failed = [this, &node](int /*agent*/, Status why) {
    TaskResult result;
    result.why = std::move(why);
    EndTask(node, std::move(result));
  };
  handlers.on_done = [this, &node] {
    TaskResult result;
    result.copied = std::exchange(node.copied, std::nullopt);
    EndTask(node, std::move(result));
  };
  node.copy =
      std::make_unique<DirectorySync>(loop_, std::vector<int>{node.agent}, files, kCopyStall,
                                      std::move(handlers), CopySource::kFileMounts);
  node.copy->Start();
}

void ClusterRun::Apply(const cluster_effect::Say& effect) {
  const bool is_on_board = options_.display != nullptr && options_.display->is_on();
  if (!effect.is_step || !is_on_board) options_.print(effect.text + "\n");
}

void ClusterRun::Apply(const cluster_effect::ReportError& effect) {
  options_.report_error(effect.why);
}

void ClusterRun::Apply(const cluster_effect::Ask& effect) {
  options_.ask(effect.question,
               [this](bool is_yes) { driving_.Feed(cluster_event::Answer{is_yes}); });
}

void ClusterRun::Apply(const cluster_effect::Finish& effect) {
  outcome_.exit_code = effect.exit_code;
  driving_.Finish();
  Close();
}

void ClusterRun::Close() {
  if (std::exchange(is_closing_, true)) return;
  // Not from within a callback of the agents.
  loop_.Post([this] {
    for (const auto& node : nodes_) node->copy.reset();
    agents_.Close(kAgentsCloseLimit, [this] { loop_.Stop(); });
  });
}

// ---- facts

void ClusterRun::OnReady(int agent, const wire::HostFacts& /*facts*/) {
  Node* node = NodeOf(agent);
  if (node == nullptr) return;
  node->is_ready = true;
  driving_.Feed(cluster_event::LoggedIn{node->number});
}

void ClusterRun::OnLost(int agent, Status why) {
  Node* node = NodeOf(agent);
  if (node == nullptr) return;
  node->agent = -1;
  node->is_ready = false;
  node->is_busy = false;
  node->copy.reset();
  const std::string& name = node->place.node;
  driving_.Feed(cluster_event::Lost{
      node->number, WithoutContext(why, {fmt::format("host {}: ", name),
                                         fmt::format("start agent on {}: ", name)})});
}

void ClusterRun::OnNoise(int agent, ByteView line) {
  if (const Node* node = NodeOf(agent)) {
    Log(LogLevel::kInfo, "host " + node->place.node, "{}", line);
  }
}

void ClusterRun::OnMessage(int agent, wire::Message&& message) {
  Node* node = NodeOf(agent);
  if (node == nullptr || !node->is_busy) return;
  if (node->copy) {
    node->copy->OnMessage(agent, message);
    return;
  }
  if (message.generation != node->generation) return;
  if (const auto* output = std::get_if<wire::Output>(&message.body)) {
    OnOutput(*node, *output);
  } else if (const auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
    node->status = exited->status;
  } else if (std::get_if<wire::GenerationStopped>(&message.body) != nullptr) {
    OnEnded(*node);
  }
}

void ClusterRun::OnOutput(Node& node, const wire::Output& output) {
  const bool is_stdout = output.stream == wire::StreamId::kStdout;
  if (node.is_shown) {
    LineTagger& tagger = is_stdout ? *node.out : *node.err;
    std::string lines;
    std::string bytes = output.bytes;
    if (const size_t mark = bytes.find(kListening); mark != std::string::npos) {
      bytes.erase(mark, kListening.size());
      driving_.Feed(cluster_event::Listening{node.number});
    }
    tagger.Feed(bytes, "", lines);
    if (output.is_end && tagger.Finish("", lines) && !lines.ends_with('\n')) lines += '\n';
    lines = WithoutShellNoise(options_.is_plain ? WithoutColors(lines) : lines);
    if (!lines.empty()) options_.print(lines);
    node.last.Feed(bytes);
  } else if (is_stdout) {
    node.answer.append(output.bytes, 0, kMaxAnswer - std::min(kMaxAnswer, node.answer.size()));
  } else {
    node.last.Feed(output.bytes);
  }
  if (output.bytes.empty()) return;
  const auto bytes = static_cast<uint32_t>(output.bytes.size());
  agents_.Send(node.agent, {node.generation, wire::Credit{0, wire::StreamId::kStdout, bytes}});
}

void ClusterRun::OnEnded(Node& node) {
  TaskResult result;
  result.output = std::move(node.answer);
  result.last_lines = node.last.Lines();
  for (std::string& line : result.last_lines) line = WithoutColors(line);
  std::erase_if(result.last_lines, IsShellNoise);
  if (node.status.stage != wire::ExecStage::kNone) {
    result.why = {ErrorCode::kCommandNotExecutable,
                  fmt::format("cannot run /bin/sh: {}", ::strerror(node.status.error))};
  }
  result.exit_code = node.status.signal != 0 ? 128 + node.status.signal : node.status.exit_code;
  EndTask(node, std::move(result));
}

void ClusterRun::EndTask(Node& node, TaskResult result) {
  node.is_busy = false;
  node.copy.reset();
  driving_.Feed(cluster_event::Done{node.number, std::move(result)});
}

}  // namespace hvdray
