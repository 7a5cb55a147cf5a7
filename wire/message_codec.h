// SPDX-License-Identifier: Apache-2.0
// Encodes messages into frames and decodes them: the only place that knows their bytes. All that a
// peer sends is checked here, once. Pure. Threads: any.
#ifndef HVDRAY_WIRE_MESSAGE_CODEC_H_
#define HVDRAY_WIRE_MESSAGE_CODEC_H_

#include <string>

#include "base/result.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace hvdray::wire {

/// Returns header and body, ready to be written. The header has kHelloVersion for Hello and
/// `version` for everything else. Text that is not UTF-8 becomes U+FFFD; arguments, environment,
/// paths, KV names and values are kept byte for byte.
/// Errors: kInternal for raw bytes that the peer would refuse (a NUL in an argument, over 64 KiB of
/// output, a KV value of over 16 MiB) and for JSON over its limit.
Result<std::string> EncodeMessage(const Message& message, uint16_t version = kMaxVersion);

/// Returns the message of a frame from a FrameDecoder. Unknown JSON keys are ignored; for missing
/// ones the struct keeps its defaults. Errors: kProtocolError, naming message and field.
Result<Message> DecodeMessage(const FrameHeader& header, ByteView body);

/// The JSON of an Inspection alone, as it lies in its frame: one line, without the newline.
std::string ToJson(const Inspection& inspection);
/// The inverse. Errors: kProtocolError, naming the field.
Result<Inspection> InspectionFromJson(ByteView text);

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_MESSAGE_CODEC_H_
