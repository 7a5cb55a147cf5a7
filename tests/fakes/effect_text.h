// SPDX-License-Identifier: Apache-2.0
// Effects of an elastic driver as text with every field, to compare two runs.
#ifndef HVDRAY_TESTS_FAKES_EFFECT_TEXT_H_
#define HVDRAY_TESTS_FAKES_EFFECT_TEXT_H_

#include <fmt/format.h>

#include <string>

#include "launcher/driver/events.h"

namespace hvdray {

inline std::string EffectText(const RankInfo& info) {
  return fmt::format("({}#{} {}/{} {}/{} {}/{})", info.host, info.host_index, info.rank, info.size,
                     info.local_rank, info.local_size, info.cross_rank, info.cross_size);
}
inline std::string EffectText(const HostSlots& host) {
  return fmt::format("{}:{} {} {} {}", host.host, host.slots, host.address.name, host.address.user,
                     host.address.port);
}
inline std::string EffectText(const effect::ConnectHost& e) {
  return fmt::format("connect {} {}", e.host, EffectText(e.slots));
}
inline std::string EffectText(const effect::ReleaseHost& e) {
  return fmt::format("release {}", e.host);
}
inline std::string EffectText(const effect::StartWorkers& e) {
  std::string text =
      fmt::format("start {} restart {} port {}", e.generation, e.restart_count, e.master_port);
  for (const NewWorker& worker : e.workers) {
    text += fmt::format(" {}{}", worker.worker, EffectText(worker.place));
  }
  return text;
}
inline std::string EffectText(const effect::PublishGeneration& e) {
  std::string text = fmt::format("publish {}", e.generation);
  for (const RankInfo& info : e.ranks) text += EffectText(info);
  for (const WorkerId worker : e.workers) text += fmt::format(" {}", worker);
  return text;
}
inline std::string EffectText(const effect::OpenBarrier& e) {
  return fmt::format("open {}", e.generation);
}
inline std::string EffectText(const effect::StopWorkers& e) {
  std::string text = fmt::format("stop workers in {}", e.grace.count());
  for (const WorkerId worker : e.workers) text += fmt::format(" {}", worker);
  return text;
}
inline std::string EffectText(const effect::BreakConnections& e) {
  std::string text = fmt::format("break {}", e.generation);
  for (const int host : e.hosts) text += fmt::format(" {}", host);
  return text;
}
inline std::string EffectText(const effect::Notify& e) {
  return fmt::format("notify {} {} {} {}", e.worker, e.host, e.timestamp, static_cast<int>(e.code));
}
inline std::string EffectText(const effect::MembershipChanged& e) {
  std::string text =
      fmt::format("changed {} {} {} {}", e.generation, e.size, e.stood_still.count(), e.is_counted);
  for (const HostChange& c : e.changes) text += fmt::format(" {} {} {}", c.host, c.workers, c.why);
  return text;
}
inline std::string EffectText(const effect::StopGeneration& e) {
  std::string text = fmt::format("stop {} in {}", e.generation, e.grace.count());
  for (const int host : e.hosts) text += fmt::format(" {}", host);
  return text;
}
inline std::string EffectText(const effect::Say& e) { return "say " + e.text; }
inline std::string EffectText(const WorkerRecord& worker) {
  const auto time = [](const std::optional<TimePoint>& at) {
    return at ? at->time_since_epoch().count() : -1;
  };
  return fmt::format(" [{} {}:{} pid {} of {}, {} to {}: {}{}]", worker.rank, worker.host,
                     worker.local_rank, worker.pid, worker.generation, time(worker.started),
                     time(worker.ended), worker.status ? Describe(*worker.status) : "?",
                     worker.is_victim ? " victim" : "");
}
inline std::string EffectText(const effect::Finish& e) {
  const Verdict& verdict = e.verdict;
  std::string text =
      fmt::format("finish {} {} {} restarts {} swept {} {}", verdict.exit_code,
                  static_cast<int>(verdict.origin), verdict.error.ToString(), verdict.restarts,
                  verdict.swept, (verdict.ended - verdict.started).count());
  if (verdict.first_failure) text += " first" + EffectText(*verdict.first_failure);
  for (const WorkerRecord& worker : verdict.workers) text += EffectText(worker);
  return text;
}
inline std::string EffectText(const ElasticEffect& effect) {
  return std::visit([](const auto& e) { return EffectText(e); }, effect);
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_EFFECT_TEXT_H_
