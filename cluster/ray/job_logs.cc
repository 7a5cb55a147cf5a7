// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/job_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/blocking_pool.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_access.h"
#include "launcher/engine/signals.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"

namespace hvdray {
namespace {

constexpr Duration kLookPace = std::chrono::seconds(1);  // between two looks at the job
// A head may restart meanwhile.
constexpr int kMaxFailedLooks = 60;
// An answer that does not come must not hold up the end.
constexpr Duration kCancelPatience = std::chrono::milliseconds(100);

/// What one read of the log was given. Shared with the thread that reads.
struct Printed {
  int code = 0;  // of PrintOut()

  bool Take(ByteView piece) {
    code = PrintOut("logs", std::string(piece));
    return code == 0;
  }
};

/// Prints a job's log as it grows. Ray's stream of the file never ends by itself, so this looks at
/// the job, too; once that has ended, it reads the rest of the file.
class JobLogFollower {
 public:
  JobLogFollower(Loop& loop, RayAccess access, RayJob job)
      : loop_(loop),
        pool_(loop, kCancelPatience),
        access_(std::move(access)),
        client_(std::make_shared<DashboardClient>(access_.Copy())),
        job_(std::move(job)) {
    signals_ = std::make_unique<UserSignals>(
        loop, SignalHandlers{.on_stop = [this](int signo) { End(128 + signo); }});
  }

  Result<int> Run() {
    OnJob();
    loop_.Run();
    return std::move(*end_);
  }

 private:
  void OnJob() {
    if (IsTerminal(job_.status)) {
      if (follower_ == nullptr) return ReadRest(/*offset=*/0);
      return follower_->Cancel();  // OnFollowed() goes on
    }
    if (follower_ == nullptr && !job_.driver_node_id.empty()) Follow();
    timer_ = loop_.After(kLookPace, [this] { Look(); });
  }

  void Look() {
    pool_.Run<Result<RayJob>>(
        [client = client_, id = job_.submission_id] { return JobCalled(*client, id); },
        [this](Result<RayJob> job) {
          if (end_) return;
          if (job.ok()) {
            failed_looks_ = 0;
            job_ = std::move(job).value();
            return OnJob();
          }
          const ErrorCode code = job.status().code();
          if (code == ErrorCode::kUsage) {
            return End(Status(ErrorCode::kRayFailed, fmt::format("job {} was deleted meanwhile",
                                                                 ShownText(job_.submission_id))));
          }
          const bool may_pass = code == ErrorCode::kRayUnreachable || code == ErrorCode::kRayFailed;
          if (!may_pass || ++failed_looks_ == kMaxFailedLooks) return End(job.status());
          if (failed_looks_ == 1) {
            Tell(LogLevel::kWarning, "hvdray logs",
                 fmt::format("trying again: {}", job.status().message()));
          }
          timer_ = loop_.After(kLookPace, [this] { Look(); });
        });
  }

  void Follow() {
    follower_ = std::make_shared<RayLogFollower>(
        access_.Copy(), RayLogFollower::Options{.node_id = job_.driver_node_id,
                                                .file_name = RayJobLogName(job_.submission_id)});
    auto printed = std::make_shared<Printed>();
    pool_.Run<Status>(
        [follower = follower_, printed] {
          return follower->Follow(
              {.take = [&printed](ByteView piece) { return printed->Take(piece); }});
        },
        [this, printed](const Status& status) {
          if (end_) return;
          if (printed->code != 0) return End(printed->code);
          if (!IsTerminal(job_.status)) return End(status);
          ReadRest(follower_->offset());
        });
  }

  /// Prints the log from `offset` on, and ends.
  void ReadRest(uint64_t offset) {
    auto printed = std::make_shared<Printed>();
    pool_.Run<Status>(
        [client = client_, job = job_, offset, printed] {
          uint64_t to_skip = offset;
          return client->ReadJobLog(job, [&](ByteView piece) {
            const size_t skipped = std::min<uint64_t>(to_skip, piece.size());
            to_skip -= skipped;
            piece.remove_prefix(skipped);
            return piece.empty() || printed->Take(piece);
          });
        },
        [this, printed](Status status) {
          if (end_) return;
          if (!status.ok()) return End(std::move(status));
          if (printed->code == 0) {
            Tell(LogLevel::kInfo, "hvdray logs",
                 fmt::format("job {}: {}", ShownText(job_.submission_id), RayJobState(job_)));
          }
          End(printed->code);
        });
  }

  void End(Result<int> end) {
    if (end_) return;
    end_ = std::move(end);
    if (follower_ != nullptr) follower_->Cancel();
    client_->Cancel();
    loop_.Stop();
  }

  Loop& loop_;
  BlockingPool pool_;
  const RayAccess access_;
  const std::shared_ptr<DashboardClient> client_;  // with the call that runs
  RayJob job_;
  std::shared_ptr<RayLogFollower> follower_;  // with the thread that follows
  std::unique_ptr<UserSignals> signals_;
  Watch timer_;
  int failed_looks_ = 0;
  std::optional<Result<int>> end_;
};

}  // namespace

Result<int> LogsOfJob(CommandRequest& request) {
  const std::string& id = request.arguments.front();
  if (request.arguments.size() > 1) {
    return Status(ErrorCode::kUsage, fmt::format("{} is not a cluster file", ShownText(id)),
                  "hvdray logs FILE.yaml NODE [LOG], or hvdray logs JOB");
  }
  std::optional<int64_t> lines;
  if (const RawOption* said = request.said.Find(OptionId::kLines)) {
    HVDRAY_ASSIGN_OR_RETURN(lines, WholeOf(OptionId::kLines, *said));
    if (request.Has(OptionId::kFollow)) {
      return Status(ErrorCode::kUsage,
                    fmt::format("{} is not allowed with --follow of a job", said->label));
    }
  }
  request.spec.ray.is_wanted.Set(true, "hvdray logs");
  HeadLink link;
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, FindRay("logs", request.spec, link));
  DashboardClient client(access.Copy());
  HVDRAY_ASSIGN_OR_RETURN(RayJob job, JobCalled(client, id));
  if (job.submission_id.empty()) {
    return Status(ErrorCode::kUsage,
                  fmt::format("job {} was not submitted, so Ray keeps no log of it", ShownText(id)),
                  "its output is where it was started");
  }
  if (job.metadata.contains("hvdray_job_id")) {
    Tell(LogLevel::kInfo, "hvdray logs",
         fmt::format("this is what its launcher wrote; hvdray follow {} shows its workers' output",
                     ShownText(id)));
  }
  if (request.Has(OptionId::kFollow)) {
    HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
    return JobLogFollower(*loop, std::move(access), std::move(job)).Run();
  }
  Printed printed;
  HVDRAY_RETURN_IF_ERROR(client.ReadJobLog(
      job, [&printed](ByteView piece) { return printed.Take(piece); }, lines));
  return printed.code;
}

}  // namespace hvdray
