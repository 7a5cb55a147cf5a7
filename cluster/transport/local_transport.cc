// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/local_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "cluster/transport/child_process.h"

namespace hvdray {
namespace {

class LocalTransport : public Transport {
 public:
  LocalTransport(Loop& loop, std::string agent_path, std::vector<std::string> agent_arguments)
      : loop_(loop), command_({std::move(agent_path)}) {
    std::move(agent_arguments.begin(), agent_arguments.end(), std::back_inserter(command_));
  }

  // The keeper process itself carries the stream; it inherits our stderr, where the user reads it.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override {
    StartChild(loop_, "agent", command_, {},
               [host, done = std::move(done)](Result<AgentStart> start) {
                 if (start.ok()) return done(std::move(start));
                 Status why = std::move(start).status();
                 if (why.code() == ErrorCode::kAgentStartFailed) {
                   why = std::move(why).WithHint("put hvdray-agent beside hvdray");
                 }
                 done(std::move(why).WithContext(fmt::format("start agent on {}", host)));
               });
  }

 private:
  Loop& loop_;
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, std::string agent_path,
                                              std::vector<std::string> agent_arguments) {
  return std::make_unique<LocalTransport>(loop, std::move(agent_path), std::move(agent_arguments));
}

}  // namespace hvdray
