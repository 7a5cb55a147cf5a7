// The bytes of a notice to a Horovod worker, "the set of hosts has changed", and of the worker's
// answer. Pure: who carries them is launcher/agent/notifier. Source: Horovod spec 3.10.
#ifndef HVDRAY_RENDEZVOUS_NOTICE_H_
#define HVDRAY_RENDEZVOUS_NOTICE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// What a worker signs and checks with, as it registered it (WorkerAddresses::key). Never logged.
using NoticeKey = std::array<uint8_t, 32>;

/// Horovod's HostsUpdatedRequest.
struct Notice {
  int64_t timestamp = 0;  ///< Seconds since the epoch. A worker heeds only what is above its last.
  uint8_t code = 0;       ///< HostUpdateResult: 1 removed, 2 added, 3 both.
  bool operator==(const Notice&) const = default;
};

/// The pickle of a HostsUpdatedRequest, protocol 2: every Python 3 reads it.
std::string PickleNotice(const Notice& notice);

/// Signature, length and body, as Horovod's services and clients exchange them.
std::string SignedFrame(const NoticeKey& key, ByteView body);

/// What a worker that took the notice answers with; nothing longer is listened to.
inline constexpr size_t kMaxAnswerBytes = 4096;

/// `received`: all that has come so far. nullopt: not the whole answer yet. ok: the worker has
/// taken the notice. kProtocolError: a wrong signature, a frame of more than kMaxAnswerBytes, a
/// pickle that is not accepted, or another answer than AckResponse. The signature is checked before
/// the pickle is looked at.
std::optional<Status> ReadNoticeAnswer(const NoticeKey& key, ByteView received);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_NOTICE_H_
