// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/agent_set.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/sealed_memory.h"

namespace hvdray {
namespace {

constexpr std::string_view kLostHint =
    "see whether the host, its network or the agent went down; raise --heartbeat-timeout to "
    "tolerate stalls";
// What an agent says of itself that ends by a signal, and who may have sent it.
constexpr std::string_view kSignalled = "the agent received SIG";
constexpr std::string_view kSignalledHint =
    "a worker, a user or what manages that machine has sent hvdray-agent this signal";

bool IsSignalled(const Status& why) { return why.message().find(kSignalled) != std::string::npos; }

// The carrier's exit tells more than a closed link; wait this long for it.
constexpr Duration kExitReasonWait = std::chrono::milliseconds(300);
// Limit in Close() for the carrier of a lost agent, which may never notice the loss.
constexpr Duration kLostLimit = std::chrono::milliseconds(500);

}  // namespace

/// One agent; its link tells it what happens.
class AgentSet::Agent final : public wire::Link::Owner {
 public:
  Agent(AgentSet& its_set, int its_number, std::string its_host)
      : set(its_set), number(its_number), host(std::move(its_host)) {}

  void OnMessage(wire::Message&& message) override;
  void OnClosed(Status why) override { set.OnLinkClosed(number, std::move(why)); }
  void OnControlRoom() override { set.owner_.OnControlRoom(number); }
  void OnOutputRoom() override { set.owner_.OnOutputRoom(number); }
  void OnNoise(ByteView line) override { set.owner_.OnNoise(number, line); }

  AgentSet& set;
  const int number;
  const std::string host;
  std::string build;
  bool takes_deflated = false;
  bool shares_memory = false;
  State state = State::kStarting;
  std::unique_ptr<wire::Link> link;
  std::unique_ptr<wire::Link> closing;  // of a rejected agent: its Bye is in flight
  std::unique_ptr<AgentProcess> process;
  bool has_exited = false;
  bool was_lost = false;  // lost, then closing
  Status link_status;
  Status exit_status;
  Watch reason_timer;
};

AgentSet::AgentSet(Loop& loop, Transport& transport, std::vector<std::string> hosts,
                   std::string build, wire::Welcome welcome, Owner& owner)
    : loop_(loop),
      transport_(transport),
      build_(std::move(build)),
      welcome_(std::move(welcome)),
      owner_(owner) {
  for (std::string& host : hosts) Add(std::move(host));
}

AgentSet::~AgentSet() = default;

Status AgentSet::OfferMemory() {
  welcome_.memory_token = Hex(RandomBytes(16));
  HVDRAY_ASSIGN_OR_RETURN(token_, MakeSealedMemory("hvdray-token", welcome_.memory_token));
  welcome_.memory_pid = static_cast<uint32_t>(::getpid());
  welcome_.memory_descriptor = token_.get();
  return {};
}

void AgentSet::StartAll() {
  for (size_t i = 0; i < agents_.size(); ++i) Start(static_cast<int>(i));
}

int AgentSet::Add(std::string host) {
  const auto number = static_cast<int>(agents_.size());
  agents_.push_back(std::make_unique<Agent>(*this, number, std::move(host)));
  return number;
}

void AgentSet::Start(int host) {
  transport_.Start(agents_[host]->host,
                   [this, host](Result<AgentStart> start) { OnStarted(host, std::move(start)); });
}

void AgentSet::OnStarted(int host, Result<AgentStart> start) {
  Agent& agent = *agents_[host];
  if (!start.ok()) {
    agent.has_exited = true;
    Lose(host, std::move(start).status());
    return;
  }
  agent.process = std::move(start->process);
  agent.process->OnExit([this, host](Status how) { OnCarrierExited(host, std::move(how)); });
  if (agent.state == State::kClosing) return;  // `start` closes the stream, which is its lifeline
  agent.state = State::kGreeting;
  agent.link = wire::MakeLink(loop_, wire::LinkRole::kLauncher, std::move(start->stream));
  agent.link->Start(agent);
  wire::Hello hello;
  hello.min_version = min_version_;
  hello.build = build_;
  agent.link->Send({0, std::move(hello)});
}

void AgentSet::Agent::OnMessage(wire::Message&& message) {
  if (state == State::kReady && std::holds_alternative<wire::SharesMemory>(message.body)) {
    shares_memory = true;
    return;
  }
  if (state == State::kReady) return set.owner_.OnMessage(number, std::move(message));
  if (state != State::kGreeting) return;
  if (const auto* hello = std::get_if<wire::Hello>(&message.body)) {
    return set.Greet(number, *hello);
  }
  set.Reject(number, {ErrorCode::kProtocolError,
                      fmt::format("agent on {} did not begin with Hello", host)});
}

void AgentSet::Greet(int host, const wire::Hello& hello) {
  Agent& agent = *agents_[host];
  agent.state = State::kReady;
  agent.build = hello.build;
  agent.takes_deflated = hello.takes_deflated;
  wire::Welcome welcome = welcome_;
  welcome.takes_deflated = true;
  welcome.host = agent.host;
  welcome.version = std::min(hello.max_version, wire::kMaxVersion);
  agent.link->Send({0, std::move(welcome)});
  agent.link->StartHeartbeat(std::chrono::milliseconds(welcome_.heartbeat_period_ms),
                             std::chrono::milliseconds(welcome_.heartbeat_timeout_ms));
  owner_.OnReady(host, hello.facts);
}

void AgentSet::OnLinkClosed(int host, Status why) {
  Agent& agent = *agents_[host];
  if (agent.state == State::kClosing || agent.state == State::kLost) return;
  if (why.ok()) why = {ErrorCode::kAgentLost, "agent closed the link"};
  agent.link_status = std::move(why);
  const bool has_reason = agent.link_status.code() != ErrorCode::kAgentLost ||
                          agent.link->IsTimedOut() || IsSignalled(agent.link_status);
  if (agent.has_exited || has_reason) {
    const bool is_told_better = !has_reason && !agent.exit_status.ok();
    Lose(host, is_told_better ? agent.exit_status : agent.link_status);
    return;
  }
  agent.reason_timer =
      loop_.After(kExitReasonWait, [this, host] { Lose(host, agents_[host]->link_status); });
}

void AgentSet::OnCarrierExited(int host, Status how) {
  Agent& agent = *agents_[host];
  agent.has_exited = true;
  agent.exit_status = how;
  if (agent.reason_timer.is_active()) {
    Lose(host, how.ok() ? agent.link_status : std::move(how));
  } else if (agent.state == State::kStarting || agent.state == State::kGreeting) {
    Lose(host,
         {ErrorCode::kAgentStartFailed, how.ok() ? "agent ended before it spoke" : how.message()});
  }
  // A ready agent's link closes, too; its last messages may still be unread. This is the carrier's
  // last call, so it may go.
  ReleaseCarrier(agent);
  CheckAllGone();
}

void AgentSet::ReleaseCarrier(Agent& agent) {
  const bool is_over = agent.state == State::kLost || agent.state == State::kClosing;
  if (is_over && agent.has_exited) agent.process.reset();
}

void AgentSet::Lose(int host, Status why) {
  Agent& agent = *agents_[host];
  if (agent.state == State::kLost || agent.state == State::kClosing) return;
  agent.state = State::kLost;
  agent.reason_timer.Cancel();
  // Closing our end orders a living agent to stop everything there.
  agent.link.reset();
  ReleaseCarrier(agent);
  if (why.code() == ErrorCode::kAgentLost) {
    why = std::move(why).WithHint(IsSignalled(why) ? kSignalledHint : kLostHint);
  }
  owner_.OnLost(host, std::move(why).WithContext(fmt::format("host {}", agent.host)));
}

void AgentSet::Reject(int host, Status why) {
  Agent& agent = *agents_[host];
  if (agent.link == nullptr || agent.state == State::kLost || agent.state == State::kClosing) {
    return;
  }
  agent.closing = std::move(agent.link);
  agent.closing->Close({static_cast<uint16_t>(why.code()), why.message()}, wire::kByeLimit,
                       [this, raw = &agent] {
                         raw->closing.reset();
                         CheckAllGone();
                       });
  Lose(host, std::move(why));
}

void AgentSet::Send(int host, wire::Message message) {
  Agent& agent = *agents_[host];
  if (agent.state == State::kReady) agent.link->Send(std::move(message));
}

void AgentSet::SendAll(const wire::Message& message) {
  for (size_t i = 0; i < agents_.size(); ++i) Send(static_cast<int>(i), message);
}

bool AgentSet::IsReady(int host) const { return agents_[host]->state == State::kReady; }

bool AgentSet::HasControlRoom(int host) const {
  const Agent& agent = *agents_[host];
  return agent.state != State::kReady || agent.link->HasControlRoom();
}

bool AgentSet::HasOutputRoom(int host) const {
  const Agent& agent = *agents_[host];
  return agent.state != State::kReady || agent.link->HasOutputRoom();
}

bool AgentSet::TakesDeflated(int host) const { return agents_[host]->takes_deflated; }

bool AgentSet::SharesMemory(int host) const {
  return IsReady(host) && agents_[host]->shares_memory;
}

const std::string& AgentSet::BuildOf(int host) const { return agents_[host]->build; }

bool AgentSet::IsFlushed() const {
  return std::all_of(agents_.begin(), agents_.end(), [](const auto& agent) {
    return agent->link == nullptr || agent->link->QueuedBytes() == 0;
  });
}

void AgentSet::Close(Duration limit, std::function<void()> done) {
  on_all_gone_ = std::move(done);
  for (auto& agent : agents_) SayBye(*agent, limit);
  lost_timer_ = loop_.After(std::min(limit, kLostLimit), [this] {
    lost_timer_.Cancel();
    CheckAllGone();
  });
  close_timer_ = loop_.After(limit, [this] {
    Log(LogLevel::kDebug, "launcher", "an agent did not end in time");
    if (const auto callback = std::exchange(on_all_gone_, nullptr)) callback();
  });
  loop_.Post([this] { CheckAllGone(); });
}

void AgentSet::Release(int host) { SayBye(*agents_[host], wire::kByeLimit); }

void AgentSet::SayBye(Agent& agent, Duration limit) {
  const State before = agent.state;
  if (before == State::kClosing) return;
  agent.state = State::kClosing;
  agent.was_lost = before == State::kLost;
  agent.reason_timer.Cancel();
  ReleaseCarrier(agent);
  if (before != State::kReady) {
    agent.link.reset();
    return;
  }
  agent.link->Close(wire::Bye{}, limit, [this, raw = &agent] {
    raw->link.reset();
    CheckAllGone();
  });
}

void AgentSet::CheckAllGone() {
  if (!on_all_gone_) return;
  const bool lost_have_time = lost_timer_.is_active();
  const bool all_gone =
      std::all_of(agents_.begin(), agents_.end(), [lost_have_time](const auto& agent) {
        const bool is_given_up = agent->was_lost && !lost_have_time;
        return agent->link == nullptr && agent->closing == nullptr &&
               (agent->process == nullptr || agent->has_exited || is_given_up);
      });
  if (!all_gone) return;
  close_timer_.Cancel();
  lost_timer_.Cancel();
  if (const auto callback = std::exchange(on_all_gone_, nullptr)) callback();
}

}  // namespace hvdray
