// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/local_transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "cluster/transport/child_process.h"

namespace hvdray {
namespace {

class LocalTransport : public Transport {
 public:
  LocalTransport(Loop& loop, HeldProgram agent, std::vector<std::string> agent_arguments)
      : loop_(loop), agent_(std::move(agent)), arguments_(std::move(agent_arguments)) {}

  // The keeper process itself carries the stream; it inherits our stderr, where the user reads it.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override {
    std::vector<std::string> command = arguments_;
    command.insert(command.begin(), agent_.Path());
    StartChild(loop_, "agent", command, {},
               [host, path = command.front(), done = std::move(done)](Result<AgentStart> start) {
                 if (start.ok()) return done(std::move(start));
                 Status why = std::move(start).status();
                 if (why.code() == ErrorCode::kAgentStartFailed) {
                   why = {
                       why.code(), why.message(),
                       ::access(path.c_str(), F_OK) == 0
                           ? "hvdray-agent must be for this processor, and where programs may run"
                           : "put hvdray-agent beside hvdray, or in ../libexec/hvdray from there"};
                 }
                 done(std::move(why).WithContext(fmt::format("start agent on {}", host)));
               });
  }

 private:
  Loop& loop_;
  const HeldProgram agent_;
  const std::vector<std::string> arguments_;
};

}  // namespace

HeldProgram::HeldProgram(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_PATH | O_CLOEXEC)) {}

std::string HeldProgram::Path() const {
  struct stat held {};
  struct stat there {};
  if (!file_.is_valid() || ::fstat(file_.get(), &held) != 0) return path_;
  const bool is_same = ::stat(path_.c_str(), &there) == 0 && there.st_dev == held.st_dev &&
                       there.st_ino == held.st_ino;
  return is_same ? path_ : fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get());
}

std::unique_ptr<Transport> MakeLocalTransport(Loop& loop, HeldProgram agent,
                                              std::vector<std::string> agent_arguments) {
  return std::make_unique<LocalTransport>(loop, std::move(agent), std::move(agent_arguments));
}

}  // namespace hvdray
