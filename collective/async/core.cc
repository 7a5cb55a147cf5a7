// SPDX-License-Identifier: Apache-2.0
#include "collective/async/core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/signals.h"
#include "base/text.h"

namespace hvdray {
namespace {

// Others may be in a long operation; then they come. One that is stopped does not.
constexpr std::chrono::seconds kLongestFarewell{5};

// A peer may be in an operation of others, or wait for a program's lock, for any time. One that
// dies is noticed.
constexpr Duration kNoLimit = std::chrono::hours(24 * 365 * 50);

Result<double> ReadNumber(const Environment& environment, const std::string& name,
                          double fallback) {
  const std::string text = environment.GetOr(name, "");
  if (text.empty()) return fallback;
  const std::optional<double> value = ParseDouble(text);
  if (!value || !(*value >= 0 && *value <= 1e12)) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("{}={} is not a number from 0 to 1e12", name, ShownText(text)));
  }
  return *value;
}

int64_t Nanoseconds(double seconds) {
  constexpr double kMost = 3e9;  // a hundred years
  return static_cast<int64_t>(std::min(seconds, kMost) * 1e9);
}

Request RequestOf(const hvdray_request& from) {
  Request request;
  request.kind = static_cast<RequestKind>(from.kind);
  request.process_set = from.process_set;
  request.name = from.name == nullptr ? "" : from.name;
  const bool is_data = from.kind <= HVDRAY_REDUCESCATTER;
  request.is_on_device = is_data && from.device >= 0;
  if (is_data) {
    request.type = static_cast<uint8_t>(from.type);
    request.shape.assign(from.shape, from.shape + from.dimensions);
    request.root = from.kind == HVDRAY_BROADCAST ? from.root : 0;
  }
  if (from.kind == HVDRAY_ALLREDUCE || from.kind == HVDRAY_REDUCESCATTER) {
    request.op = static_cast<uint8_t>(from.op);
    request.prescale = from.prescale;
    request.postscale = from.postscale;
  }
  switch (request.kind) {
    case RequestKind::kAllToAll:
      if (from.splits != nullptr) {
        request.numbers.assign(from.splits, from.splits + from.split_count);
      }
      break;
    case RequestKind::kJoin:
      request.name = kJoinName;
      request.sequence = from.sequence;
      request.is_on_device = from.run != nullptr;
      break;
    case RequestKind::kAddProcessSet:
      request.process_set = 0;
      request.numbers.assign(from.ranks, from.ranks + from.rank_count);
      break;
    case RequestKind::kRemoveProcessSet:
      request.process_set = 0;
      request.numbers = {from.process_set};
      break;
    default:
      break;
  }
  if (request.name.empty()) request.name = fmt::format("hvdray.{}", Name(request.kind));
  return request;
}

}  // namespace

Result<AsyncSettings> AsyncSettingsFrom(const Environment& environment) {
  AsyncSettings settings;
  HVDRAY_ASSIGN_OR_RETURN(const double fusion,
                          ReadNumber(environment, "HOROVOD_FUSION_THRESHOLD",
                                     static_cast<double>(settings.fusion_bytes)));
  HVDRAY_ASSIGN_OR_RETURN(const double no_groups,
                          ReadNumber(environment, "HOROVOD_DISABLE_GROUP_FUSION", 0));
  HVDRAY_ASSIGN_OR_RETURN(const double cycle_ms, ReadNumber(environment, "HOROVOD_CYCLE_TIME", 0));
  HVDRAY_ASSIGN_OR_RETURN(const double unchecked,
                          ReadNumber(environment, "HOROVOD_STALL_CHECK_DISABLE", 0));
  HVDRAY_ASSIGN_OR_RETURN(const double stall,
                          ReadNumber(environment, "HOROVOD_STALL_CHECK_TIME_SECONDS", 60));
  HVDRAY_ASSIGN_OR_RETURN(const double end,
                          ReadNumber(environment, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0));
  settings.fusion_bytes = static_cast<uint64_t>(fusion);
  settings.fuses_groups = no_groups == 0 ? 1 : 0;
  settings.cycle_ns = Nanoseconds(cycle_ms / 1000);
  settings.stall_ns = unchecked == 0 ? Nanoseconds(stall) : 0;
  settings.stall_shutdown_ns = unchecked == 0 ? Nanoseconds(end) : 0;
  return settings;
}

AsyncCore::AsyncCore(CommunicatorOptions options, AsyncSettings settings, std::string error_file)
    : options_(std::move(options)), settings_(settings), stall_(std::move(error_file)) {}

Result<std::unique_ptr<AsyncCore>> AsyncCore::Make(CommunicatorOptions options,
                                                   AsyncSettings settings, std::string error_file) {
  // Memory of devices is the program's affair: here it is the host's.
  if (options.backend == Backend::kNccl) options.backend = Backend::kAuto;
  options.operation_timeout = kNoLimit;
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, MakeCommunicator(options));
  HVDRAY_RETURN_IF_ERROR(all->Broadcast(&settings, sizeof settings, DataType::kUint8, 0));
  const bool is_one_host = all->backend() == "shm" || all->backend() == "single";
  std::unique_ptr<AsyncCore> core(
      new AsyncCore(std::move(options), settings, std::move(error_file)));
  if (is_one_host) HVDRAY_RETURN_IF_ERROR(core->ShareProcessors(*all));
  HVDRAY_ASSIGN_OR_RETURN(core->rounds_, Rounds::Make(core->options_, *all));
  all->EndMeeting();
  CommunicatorOptions of_sets = core->options_;
  of_sets.check = [core = core.get()] { return core->AwaitDeath(std::chrono::milliseconds(1)); };
  core->executor_ =
      std::make_unique<Executor>(std::move(of_sets), std::move(all), core->table_, core->timeline_);
  NegotiationSettings negotiation;
  negotiation.small_bytes = settings.small_bytes;
  negotiation.fusion_bytes = settings.fusion_bytes;
  negotiation.fuses_groups = settings.fuses_groups != 0;
  core->negotiator_ =
      std::make_unique<Negotiator>(core->options_.rank, core->options_.size, negotiation);
  core->negotiator_->OnArrival([timeline = &core->timeline_](int rank, const Request& request) {
    timeline->Arrived(rank, request);
  });
  const HeldSignals held(AllSignals());  // they are for the program's own threads
  core->thread_ = std::thread([core = core.get()] { core->Run(); });
  return core;
}

// Ranks that wake each other gather on one processor where others are busy, too, and take turns
// there: a large reduction took four times as long. So each rank's thread has processors of its
// own, where all have the same to choose from.
Status AsyncCore::ShareProcessors(Communicator& all) {
  if (::sched_getaffinity(0, sizeof processors_, &processors_) != 0) CPU_ZERO(&processors_);
  std::vector<cpu_set_t> sets(static_cast<size_t>(all.size()));
  HVDRAY_RETURN_IF_ERROR(
      all.AllGather(&processors_, sets.data(), sizeof processors_, DataType::kUint8));
  const bool are_same = std::all_of(sets.begin(), sets.end(), [this](const cpu_set_t& each) {
    return CPU_EQUAL(&each, &processors_) != 0;
  });
  const int count = CPU_COUNT(&processors_);
  if (!are_same || all.size() == 1) return {};
  const int begin = all.rank() * count / all.size();
  const int end = std::max(begin + 1, (all.rank() + 1) * count / all.size());
  int index = 0;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &processors_)) continue;
    if (index >= begin && index < end) CPU_SET(processor, &share_);
    ++index;
  }
  return {};
}

Status AsyncCore::Submit(std::span<const hvdray_request> requests, int64_t* handles) {
  HVDRAY_RETURN_IF_ERROR(table_.CheckOpen());
  std::vector<LocalOperationPtr> operations;
  std::vector<std::string_view> names;
  for (const hvdray_request& from : requests) {
    HVDRAY_RETURN_IF_ERROR(executor_->Check(from));
    if (requests.size() > 1 && (from.kind > HVDRAY_REDUCESCATTER || from.kind != requests[0].kind ||
                                from.process_set != requests[0].process_set)) {
      return {ErrorCode::kUsage, "a group has operations of different kinds or process sets"};
    }
    auto operation = std::make_shared<LocalOperation>();
    operation->request = RequestOf(from);
    operation->input = from.input;
    operation->output = from.output;
    operation->context = from.context;
    operation->allocate = from.allocate;
    operation->run = from.run;
    operations.push_back(std::move(operation));
  }
  if (requests.size() > 1) {
    for (const auto& operation : operations) names.push_back(operation->request.name);
    const uint64_t group = GroupOf(names);
    for (const auto& operation : operations) {
      operation->request.group = group;
      operation->request.group_size = static_cast<uint32_t>(operations.size());
    }
  }
  bool is_large = false;  // it takes longer than what might come with it
  for (const auto& operation : operations) {
    operation->encoded = Encode(operation->request);
    is_large = is_large || operation->request.Bytes() >= settings_.small_bytes;
  }
  HVDRAY_ASSIGN_OR_RETURN(const uint32_t round, table_.Add(operations, is_large));
  for (size_t i = 0; i < operations.size(); ++i) handles[i] = operations[i]->handle;
  rounds_->Ring(round);
  return {};
}

std::vector<int> AsyncCore::Missing(int64_t handle) {
  const LocalOperationPtr operation = table_.InFlight(handle);
  if (operation == nullptr) return {};
  const std::lock_guard lock(round_mutex_);
  for (WaitingOperation& waiting : negotiator_->Waiting()) {
    if (waiting.name == operation->request.name &&
        waiting.process_set == operation->request.process_set) {
      return std::move(waiting.missing);
    }
  }
  return {};
}

void AsyncCore::Shutdown(const std::string& why, Leave leave) {
  const std::lock_guard once(shutdown_mutex_);
  if (!thread_.joinable()) return;
  rounds_->Ring(table_.Close({ErrorCode::kAborted, "it has been shut down"}, why, leave));
  {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, kLongestFarewell, [this] { return has_ended_; })) {
      rounds_->Abort();
      executor_->Abort();
    }
  }
  thread_.join();
  (void)timeline_.Stop();
}

void AsyncCore::Run() {
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);  // or short waits take twice as long
  if (CPU_COUNT(&share_) > 0) (void)::sched_setaffinity(0, sizeof share_, &share_);
  Status status;
  try {
    status = Loop();
  } catch (const std::bad_alloc&) {
    status = Status(ErrorCode::kOutOfResources, "no memory for an operation");
  }
  if (!has_left_) {  // whoever waits for this rank is told
    rounds_->Abort();
    executor_->Abort();
  }
  table_.EndAll(status, is_orderly_);
  rounds_->Leave();
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

// Ends with the reason.
Status AsyncCore::Loop() {
  for (;;) {
    HVDRAY_ASSIGN_OR_RETURN(const bool is_rung, rounds_->Await(round_, NextCheck()));
    const bool has_stalled = HasStalled(std::chrono::steady_clock::now());
    if (!is_rung && !has_stalled) continue;
    if (settings_.cycle_ns > 0) {
      // For programs that count on it: as with Horovod, what they submit within a cycle goes along.
      std::this_thread::sleep_for(Duration(settings_.cycle_ns));
    } else if (is_rung) {
      table_.AwaitBurst();
    }
    Status status = RunRound(round_++, has_stalled);
    if (status.ok()) continue;
    return has_left_ ? status : WhyEnded(std::move(status));
  }
}

// An operation ends with whom it saw break first, who may only have noticed before it; rounds know
// who has died.
Status AsyncCore::WhyEnded(Status status) {
  if (status.code() != ErrorCode::kAborted) return status;
  Status death = AwaitDeath(std::chrono::milliseconds(200));  // so long the news may travel
  return death.ok() ? status : death;
}

Status AsyncCore::AwaitDeath(Duration longest) {
  constexpr uint32_t kNever = uint32_t{1} << 29;  // so many rounds ahead
  return rounds_->Await(round_ + kNever, std::chrono::steady_clock::now() + longest).status();
}

Status AsyncCore::RunRound(uint32_t round, bool has_stalled) {
  const OperationTable::Drained drained = table_.Drain(round);
  timeline_.Cycle();
  HVDRAY_ASSIGN_OR_RETURN(
      const std::vector<std::string> messages,
      rounds_->Exchange(round,
                        negotiator_->MessageOf(drained.requests, {.is_leaving = drained.is_closed,
                                                                  .leave = drained.leave,
                                                                  .why = drained.why,
                                                                  .has_stalled = has_stalled})));
  const std::vector<std::string_view> views(messages.begin(), messages.end());
  Result<Plan> made = [&] {
    const std::lock_guard lock(round_mutex_);
    return negotiator_->Round(views, std::chrono::steady_clock::now());
  }();
  HVDRAY_ASSIGN_OR_RETURN(const Plan plan, std::move(made));
  if (plan.end.code() == ErrorCode::kDeadlineExceeded) {
    // Another rank may have looked first, when this one had warned of nothing yet.
    const bool is_told = last_warning_ > negotiator_->OldestSince();
    if (!is_told) WarnOfStalls(std::chrono::steady_clock::now());
    RecordStall(TimePoint::max(), Duration(settings_.stall_shutdown_ns));
  } else if (stall_.is_written()) {
    RecordStall(std::chrono::steady_clock::now(), Duration(settings_.stall_ns));
  }
  timeline_.Flush();  // who has come is to be seen while others are waited for
  for (const Batch& batch : plan.batches) {
    if (batch.front().request->is_on_device && CPU_COUNT(&share_) > 0) {
      // What the program's libraries start here would inherit it.
      (void)::sched_setaffinity(0, sizeof processors_, &processors_);
      CPU_ZERO(&share_);
    }
    HVDRAY_RETURN_IF_ERROR(executor_->Run(batch));
  }
  has_left_ = !plan.end.ok();
  is_orderly_ = plan.has_left;
  return plan.end;
}

TimePoint AsyncCore::NextCheck() const {
  const TimePoint oldest = negotiator_->OldestSince();
  TimePoint next = TimePoint::max();
  if (oldest == TimePoint::max()) return next;
  const Duration warn(settings_.stall_ns);
  const Duration end(settings_.stall_shutdown_ns);
  if (warn > Duration::zero()) next = std::max(oldest, last_warning_) + warn;
  if (end > Duration::zero()) next = std::min(next, oldest + end);
  return next;
}

// Keeps what others have waited for so long, as this rank has not submitted it.
void AsyncCore::RecordStall(TimePoint now, Duration longest) {
  std::vector<std::string> names;
  for (WaitingOperation& operation : negotiator_->Waiting()) {
    const std::vector<int>& missing = operation.missing;
    if (operation.since <= now - longest &&
        std::find(missing.begin(), missing.end(), options_.rank) != missing.end()) {
      names.push_back(std::move(operation.name));
    }
  }
  stall_.Keep(names, longest);
}

void AsyncCore::WarnOfStalls(TimePoint now) {
  const Duration longest(settings_.stall_ns);
  std::map<int, std::vector<std::string>> missing;
  for (WaitingOperation& operation : negotiator_->Waiting()) {
    if (operation.since + longest > now) continue;
    for (const int rank : operation.missing) missing[rank].push_back(operation.name);
  }
  if (longest == Duration::zero() || missing.empty()) return;
  last_warning_ = now;
  std::string text = fmt::format(
      "operations have waited more than {} s for ranks that have not "
      "submitted them. Missing ranks:",
      std::chrono::duration_cast<std::chrono::seconds>(longest).count());
  for (const auto& [rank, names] : missing) {
    text += fmt::format(" {}: [{}]", rank, fmt::join(names, ", "));
  }
  if (options_.rank == 0) LogMessage(LogLevel::kWarning, "stalled", text);
  RecordStall(now, longest);
}

// Warns of what has waited too long; whether it is to end all.
bool AsyncCore::HasStalled(TimePoint now) {
  if (now < NextCheck()) return false;
  const Duration end(settings_.stall_shutdown_ns);
  if (last_warning_ + Duration(settings_.stall_ns) <= now) WarnOfStalls(now);
  return end > Duration::zero() && negotiator_->OldestSince() + end <= now;
}

}  // namespace hvdray
