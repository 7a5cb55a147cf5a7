// From the workers' pipes to Output frames, as fast as credit and link allow and no faster: a slow
// reader is felt by the writers, never by memory. Looks at no byte of it.
#ifndef HVDRAY_AGENT_OUTPUT_PUMP_H_
#define HVDRAY_AGENT_OUTPUT_PUMP_H_

#include <array>
#include <functional>
#include <map>

#include "base/fd.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// More credit than this is not remembered: no honest launcher gives so much.
inline constexpr uint64_t kMaxCreditHeld = uint64_t{64} << 20;
/// Most bytes in one Output frame.
inline constexpr size_t kOutputFrameBytes = size_t{64} << 10;

/// Threads: the loop's.
class OutputPump {
 public:
  struct Handlers {
    std::function<void(wire::Output)> send;
    std::function<bool()> has_room;     ///< Link::HasOutputRoom
    std::function<void()> on_progress;  ///< A stream ended, maybe the last one. May not destroy us.
  };
  OutputPump(Loop& loop, Handlers handlers);

  /// Takes the non-blocking read ends over and begins to read.
  void Add(int rank, UniqueFd stdout_pipe, UniqueFd stderr_pipe);
  /// An unknown rank is ignored; credit beyond kMaxCreditHeld is cut off.
  void AddCredit(int rank, uint32_t bytes);
  /// The link has room again.
  void OnRoom();
  /// There is nobody to send to any more: what comes is read, so that no writer blocks, and
  /// dropped.
  void Discard();
  /// What the pipe of that rank's stderr holds is read now, as far as credit and link allow.
  void ReadErrors(int rank);
  /// No writer of ours is left: ends each stream once its pipe is empty, EOF or not.
  void ForceEnd();

  bool HasEnded() const { return open_count_ == 0; }
  /// Some stream waits for credit or for the link, so no news from it means nothing.
  bool IsHeldBack() const;
  /// Bytes read so far: whether anything moves.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Stream {
    UniqueFd fd;
    Watch watch;
    size_t forced_bytes = 0;  // read since ForceEnd()
  };
  struct Rank {
    uint64_t credit = wire::kOutputWindowBytes;
    std::array<Stream, 2> streams;  // stdout, stderr
  };

  void Rearm(int rank);
  void RearmAll();
  void OnReadable(int rank, size_t index);
  /// true: the pipe is empty for now, or has ended.
  bool ReadOnce(int rank, Rank& state, size_t index);
  void Send(int rank, size_t index, std::string bytes, bool is_end);
  void End(int rank, Rank& state, size_t index);

  Loop& loop_;
  Handlers handlers_;
  std::map<int, Rank> ranks_;
  size_t open_count_ = 0;
  uint64_t bytes_read_ = 0;
  bool is_discarding_ = false;
  bool is_forced_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_OUTPUT_PUMP_H_
