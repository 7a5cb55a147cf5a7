// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/cloud_work.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/blocking_pool.h"
#include "base/environ.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cluster/cloud/aws_provider.h"
#include "launcher/engine/signals.h"

namespace hvdray {
namespace {

constexpr Duration kLeavePatience = std::chrono::milliseconds(500);

}  // namespace

Result<std::unique_ptr<CloudWork>> CloudWork::Open(const ClusterSpec& spec,
                                                   std::function<void(std::string_view)> say) {
  if (spec.provider_type != "aws") {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("provider type {} is not supported", ShownText(spec.provider_type)),
                  "hvdray makes machines at aws, and uses those that provider type local names");
  }
  std::unique_ptr<CloudWork> work(new CloudWork());
  Cloud& cloud = *work->cloud_;
  cloud.spec = spec;
  HVDRAY_ASSIGN_OR_RETURN(cloud.provider,
                          MakeAwsProvider(cloud.spec, Environment::FromProcess(),
                                          [say](const std::string& line) { say(line); }));
  MachineEdge edge;
  edge.say = std::move(say);
  edge.sleep = [&cloud](Duration duration) { return cloud.cancel.Sleep(duration); };
  edge.now = [] { return TimePoint(std::chrono::steady_clock::now()); };
  cloud.machines = std::make_unique<Machines>(*cloud.provider, cloud.spec, std::move(edge));
  return work;
}

Status CloudWork::Run(std::function<Status(Cloud&)> job) {
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  Status answer(ErrorCode::kCancelled, "interrupted");
  BlockingPool pool(*loop, kLeavePatience);
  SignalHandlers handlers;
  handlers.on_stop = [&](int signo) {
    if (std::exchange(signo_, signo) != 0) return loop->Stop();
    cloud_->cancel.Cancel();
    cloud_->provider->Cancel();
    EndTerminalQuestions();
  };
  const UserSignals signals(*loop, std::move(handlers));
  pool.Run<Status>([cloud = cloud_, job = std::move(job)] { return job(*cloud); },
                   [&](Status status) {
                     answer = std::move(status);
                     loop->Stop();
                   });
  loop->Run();
  return answer;
}

Status CloudWork::Ask(const std::string& question, bool* is_yes) {
  const auto answer = std::make_shared<bool>(false);
  const Status status = Run([answer, question](Cloud&) {
    *answer = AskForYes(question);
    return Status();
  });
  *is_yes = *answer;
  return signo_ == 0 ? status : Status(ErrorCode::kCancelled, "interrupted");
}

}  // namespace hvdray
