// SPDX-License-Identifier: Apache-2.0
// Encodes a notice to a Horovod worker, "the set of hosts has changed", and decodes the worker's
// answer. Pure; agent/notifier.h sends and receives them. Source: Horovod,
// horovod/runner/common/util/network.py and horovod/runner/elastic/worker.py.
#ifndef HVDRAY_RENDEZVOUS_NOTICE_H_
#define HVDRAY_RENDEZVOUS_NOTICE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace hvdray {

/// The key of a worker's signatures, as registered (WorkerAddresses::key). A secret: never logged.
using NoticeKey = std::array<uint8_t, 32>;

/// Horovod's HostsUpdatedRequest.
struct Notice {
  int64_t timestamp = 0;  ///< Seconds since the epoch. A worker ignores all but rising ones.
  uint8_t code = 0;       ///< HostUpdateResult: 1 removed, 2 added, 3 both.
  bool operator==(const Notice&) const = default;
};

/// The pickle of a HostsUpdatedRequest, in protocol 2, which every Python 3 can read.
std::string PickleNotice(const Notice& notice);

/// Signature (HMAC-SHA256), length (4 bytes) and body, the frame of Horovod's services and clients.
std::string SignedFrame(const NoticeKey& key, ByteView body);

/// The longest accepted answer.
inline constexpr size_t kMaxAnswerBytes = 4096;

/// `received`: all bytes so far. nullopt: the answer is incomplete. ok: the worker accepted the
/// notice. kProtocolError: a wrong signature, a body longer than kMaxAnswerBytes, a rejected
/// pickle, or an answer other than AckResponse. Checks the signature before it reads the pickle.
std::optional<Status> ReadNoticeAnswer(const NoticeKey& key, ByteView received);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_NOTICE_H_
