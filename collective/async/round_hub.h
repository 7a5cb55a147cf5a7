// SPDX-License-Identifier: Apache-2.0
// Where ranks of several hosts meet in their rounds: it puts their bytes together and decides
// nothing, as each rank does that for itself.
#ifndef HVDRAY_COLLECTIVE_ASYNC_ROUND_HUB_H_
#define HVDRAY_COLLECTIVE_ASYNC_ROUND_HUB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// A frame of a connection: this, then `size` bytes. Little-endian, as all machines of a job are.
struct RoundFrame {
  /// kRing: `round` is wanted (from the hub with round 0: all have come). kData: a rank's bytes of
  /// `round`, or from the hub those of all ranks, each behind its length (u64). kEnd: all is over,
  /// the bytes say why.
  enum Type : uint32_t { kRing, kData, kEnd };
  uint32_t type = kRing;
  uint32_t round = 0;
  uint64_t size = 0;
};
std::string Encode(const RoundFrame& frame, std::string_view bytes);
/// Takes the first frame off `bytes`, if it is there whole. Errors: kAborted, it is none.
Result<bool> TakeFrame(std::string& bytes, RoundFrame& frame, std::string& body);

/// Has a connection send at once, and notice a machine that has gone.
void KeepAlive(int socket);

/// How a rank begins.
struct RoundGreeting {
  static constexpr size_t kTokenBytes = 32;
  char token[kTokenBytes] = {};
  uint32_t rank = 0;
};

/// Serves from a thread of its own. One that dies or leaves ends it for all, with a line that names
/// it.
class RoundHub {
 public:
  /// listener: bound, not blocking. Those that have not come after `timeout` are named.
  RoundHub(UniqueFd listener, std::string token, int size, Duration timeout);
  /// Waits shortly until the others have gone.
  ~RoundHub();
  RoundHub(const RoundHub&) = delete;
  RoundHub& operator=(const RoundHub&) = delete;

 private:
  struct Peer;
  void Serve();
  void Accept();
  bool Receive(Peer& peer);
  bool Greet(Peer& peer);
  void Handle(Peer& peer, const RoundFrame& frame, std::string body);
  void SendAll(const RoundFrame& frame, std::string_view bytes);
  void EndAll(const std::string& why);
  static void Flush(Peer& peer);

  UniqueFd listener_;
  UniqueFd stop_;
  std::string token_;
  int size_;
  TimePoint deadline_;
  std::vector<std::unique_ptr<Peer>> peers_;
  int come_ = 0;
  uint32_t rung_ = 0;
  int gathered_count_ = 0;
  std::vector<std::string> gathered_;  ///< By rank, of the round that is on.
  std::string end_;                    ///< Why all is over; empty: it is not.
  std::thread thread_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_ROUND_HUB_H_
