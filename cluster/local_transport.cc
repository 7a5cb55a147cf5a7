// SPDX-License-Identifier: Apache-2.0
#include "cluster/local_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "cluster/child_process.h"

namespace hvdray {
namespace {

class LocalTransport : public Transport {
 public:
  LocalTransport(Loop& loop, std::string agent_path, std::vector<std::string> agent_arguments)
      : loop_(loop), command_({std::move(agent_path)}) {
    std::move(agent_arguments.begin(), agent_arguments.end(), std::back_inserter(command_));
  }

  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override {
    Result<AgentStart> start = StartNow();
    if (!start.ok()) {
      start = std::move(start).status().WithContext(fmt::format("start agent on {}", host));
    }
    // Post() takes copyable functions only.
    auto shared = std::make_shared<Result<AgentStart>>(std::move(start));
    loop_.Post([shared, done = std::move(done)] { done(std::move(*shared)); });
  }

 private:
  // The keeper process itself carries the stream; it inherits our stderr, where the user reads it.
  Result<AgentStart> StartNow() {
    ChildOptions child;
    child.command = command_;
    child.name = "agent";
    Result<AgentStart> start = StartChild(loop_, std::move(child));
    if (start.ok() || start.status().code() != ErrorCode::kAgentStartFailed) return start;
    return std::move(start).status().WithHint(
        "put hvdray-agent beside hvdray, or name it with --agent-path");
  }

  Loop& loop_;
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path,
                                              std::vector<std::string> agent_arguments) {
  return std::make_unique<LocalTransport>(loop, std::move(agent_path), std::move(agent_arguments));
}

}  // namespace hvdray
