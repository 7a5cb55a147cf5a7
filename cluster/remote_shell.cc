// SPDX-License-Identifier: Apache-2.0
#include "cluster/remote_shell.h"

#include <string>
#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

class FallbackShell : public RemoteShell {
 public:
  FallbackShell(RemoteShell& first, RemoteShell& second) : first_(first), second_(second) {}

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    first_.Run(host, command,
               [this, host, command, done = std::move(done)](Result<AgentStart> start) {
                 if (start.ok() || start.status().code() != ErrorCode::kNotSupported) {
                   return done(std::move(start));
                 }
                 Log(LogLevel::kInfo, "host " + host, "{}", start.status().message());
                 second_.Run(host, command, done);
               });
  }

 private:
  RemoteShell& first_;
  RemoteShell& second_;
};

}  // namespace

std::unique_ptr<RemoteShell> MakeFallbackShell(RemoteShell& first, RemoteShell& second) {
  return std::make_unique<FallbackShell>(first, second);
}

}  // namespace hvdray
