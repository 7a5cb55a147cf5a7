// SPDX-License-Identifier: Apache-2.0
// How far the members of one generation have come in hvd.init(). Pure; decides nothing.
#ifndef HVDRAY_LAUNCHER_DRIVER_INIT_BARRIER_H_
#define HVDRAY_LAUNCHER_DRIVER_INIT_BARRIER_H_

#include <optional>

#include "base/types.h"

namespace hvdray {

/// Members store their addresses and wait, the barrier opens, they connect, and are through.
/// Always: it opens once, while all members wait for it; nobody connects before; after that nobody
/// waits, so there is no limit. A value; threads: one.
class InitBarrier {
 public:
  explicit InitBarrier(int members = 0) : members_(members) {}

  /// One more member waits, for the others until `limit` if it is the first. `can_open` false: one
  /// will never come. True: all wait, and the barrier is open now.
  bool Meet(TimePoint limit, bool can_open);
  /// One that waited is gone. Not once it is open.
  void Leave() { --met_; }
  /// Members that wait already wait until `limit` for the others.
  void Extend(TimePoint limit) {
    if (limit_) limit_ = limit;
  }
  /// Nobody waits for the others any more.
  void GiveUp() { limit_.reset(); }
  /// One member is connected to all others, dead or alive now.
  void Connect(TimePoint now);
  /// A member has done something that comes after hvd.init().
  void NoteThrough(TimePoint now);

  int met() const { return met_; }
  bool is_open() const { return is_open_; }
  /// Open, and some members are not connected to all others yet.
  bool is_connecting() const { return is_open_ && connected_ < members_; }
  /// All have left hvd.init().
  bool IsThrough(TimePoint now) const { return through_at_ && now >= *through_at_; }
  /// Set while members wait.
  const std::optional<TimePoint>& limit() const { return limit_; }

 private:
  int members_;
  int met_ = 0;  // living ones that wait, or all once it is open
  bool is_open_ = false;
  int connected_ = 0;
  std::optional<TimePoint> limit_;
  std::optional<TimePoint> through_at_;  // set once all have connected
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_INIT_BARRIER_H_
