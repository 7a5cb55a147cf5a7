// SPDX-License-Identifier: Apache-2.0
// The gang of a client of `hvdray serve`: its start, its workers, which of them has which rank.
// docs/serve.md is normative. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_CLIENT_GANG_H_
#define HVDRAY_LAUNCHER_ENGINE_CLIENT_GANG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "launcher/engine/control_messages.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// {"type": type}
Json ControlMessage(std::string_view type);
/// A message `data` of the channel.
std::shared_ptr<const std::string> DataMessage(const Json& data, ByteView blob);

/// At most one gang lives; its number is higher than those of all before it, of this client. Each
/// set of members is reported as ready once, and only when each of them runs and has said hello.
/// Threads: one.
class ClientGang {  // NOLINT(bugprone-exception-escape): its move throws nothing
 public:
  /// Errors: kUsage while another one lives, or for a number that does not rise.
  Status CheckStart(const control::Start& start) const;
  /// After CheckStart().
  void Begin(control::Start start);
  /// It has ended, or could not start; returns its number.
  int64_t End();
  /// Another client: numbers begin anew.
  void ForgetNumbers() { last_number_ = 0; }

  bool is_alive() const { return start_.gang != 0; }
  int64_t number() const { return start_.gang; }
  int64_t last_number() const { return last_number_; }
  const control::Start& start() const { return start_; }
  /// Data that each of its workers gets first; null: none.
  const std::shared_ptr<const std::string>& start_data() const { return start_data_; }

  // Its workers, as JobClient has them.
  void ClearWorkers();
  void AddWorker(int worker, const RankInfo& place) { workers_[worker] = {.place = place}; }
  void SetMembers(const std::vector<RankInfo>& ranks, const std::vector<int>& workers);
  /// A worker that was added takes the place of the member with its rank.
  void SetMember(int worker);
  void SetPid(int worker, uint32_t pid);
  void Greet(int worker, const Json& hello);

  /// The message `ready`, if it is due.
  std::optional<Json> TakeReady();
  /// The members with these ranks; none: all. Errors: kUsage if that gang does not run, or has no
  /// such rank.
  Result<std::vector<int>> Find(int64_t gang, const control::Ranks& ranks) const;
  /// The start of a message about one of its workers.
  Json About(std::string_view type, int worker) const;

 private:
  struct Worker {  // NOLINT(bugprone-exception-escape): its move throws nothing
    RankInfo place;
    uint32_t pid = 0;
    Json python;  // of its hello; null: unknown
    bool is_greeted = false;
  };

  control::Start start_;  // gang 0: none lives
  std::shared_ptr<const std::string> start_data_;
  int64_t last_number_ = 0;
  std::map<int, Worker> workers_;  // by number: all that were started
  std::vector<int> members_;       // their numbers, by rank
  bool is_ready_owed_ = false;     // the client does not know of these members
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_CLIENT_GANG_H_
