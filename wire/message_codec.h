// SPDX-License-Identifier: Apache-2.0
// Messages to frames and back: the only place that knows their bytes. Pure; whatever a peer sent is
// checked here, once, so that no one behind it has to.
#ifndef HVDRAY_WIRE_MESSAGE_CODEC_H_
#define HVDRAY_WIRE_MESSAGE_CODEC_H_

#include <string>

#include "base/result.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace hvdray::wire {

/// Header and body in one string, ready to be written. The header says kHelloVersion for Hello and
/// `version` for all else. Text that is not UTF-8 becomes U+FFFD; argv, environment, working
/// directory, KV names and values are kept byte for byte.
/// Errors: kInternal, for what the decoder of the peer would refuse (a NUL in argv or in the
/// environment, over 64 KiB of output, over 16 MiB of raw bytes).
Result<std::string> EncodeMessage(const Message& message, uint16_t version = kMaxVersion);

/// The message of a frame that a FrameDecoder gave. Unknown JSON keys are passed over, missing ones
/// leave the default of the struct. Errors: kProtocolError, naming message and field.
Result<Message> DecodeMessage(const FrameHeader& header, ByteView body);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_MESSAGE_CODEC_H_
