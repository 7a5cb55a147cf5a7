// SPDX-License-Identifier: Apache-2.0
// Frames: the 16-byte header and where one frame ends and the next begins. Pure: opens nothing,
// knows message types only by number and size. docs/protocol.md is the normative text.
#ifndef HVDRAY_WIRE_FRAME_H_
#define HVDRAY_WIRE_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace hvdray::wire {

inline constexpr size_t kHeaderBytes = 16;
inline constexpr uint32_t kMagic = 0x52445648;  ///< "HVDR" as little-endian bytes.
/// Hello, and Bye while no version is agreed, carry this version for ever.
inline constexpr uint16_t kHelloVersion = 1;

inline constexpr size_t kMaxLauncherHello = size_t{4} << 10;
inline constexpr size_t kMaxAgentHello = size_t{64} << 10;  ///< It brings the host's facts.
inline constexpr size_t kMaxControlJson = size_t{1} << 20;
inline constexpr size_t kMaxKvValue = size_t{16} << 20;
inline constexpr size_t kMaxKvNames = size_t{16} << 10;  ///< Scope and key together.
inline constexpr size_t kMaxRaw = kMaxKvValue + kMaxKvNames;
inline constexpr size_t kMaxOutput = size_t{64} << 10;
inline constexpr size_t kOutputPrefixBytes = 8;  ///< rank u32 | stream u8 | flags u8 | reserved u16

struct FrameHeader {
  uint16_t version = kHelloVersion;
  uint16_t type = 0;    ///< A MessageType, known or not.
  uint32_t length = 0;  ///< Bytes of the body.
  Generation generation = 0;
  bool operator==(const FrameHeader&) const = default;
};

/// One frame as it lies in the decoder's or its feeder's memory.
struct Frame {
  FrameHeader header;
  ByteView body;  ///< Valid until the decoder is used again.
};

/// Little-endian numbers, the only kind on the wire.
void PutU16(std::string& out, uint16_t value);
void PutU32(std::string& out, uint32_t value);
/// `at` must hold that many bytes.
uint16_t GetU16(const char* at);
uint32_t GetU32(const char* at);

/// Appends the 16 bytes.
void EncodeHeader(std::string& out, const FrameHeader& header);
/// Overwrites the version of a frame that is encoded already.
void SetVersion(std::string& frame, uint16_t version);

/// Reads the first 16 bytes of `bytes` (at least that many). Checks magic, type and length: a type
/// that is not known has no limit and so no place. Errors: kProtocolError.
Result<FrameHeader> DecodeHeader(ByteView bytes);

/// The longest body that a frame of `type` may have; nullopt: no such type.
std::optional<size_t> MaxBodyBytes(uint16_t type);

/// Cuts a stream of bytes into frames. Memory: what has arrived of one frame, never what a header
/// promises. After an error it stays in error.
class FrameDecoder {
 public:
  /// first_limit: longest body of the first frame, whatever its type (kMaxLauncherHello, …).
  explicit FrameDecoder(size_t first_limit) : first_limit_(first_limit) {}

  /// Gives it bytes. They must stay until Next() has returned no frame, and no more may be pushed
  /// before that.
  void Push(ByteView bytes) { input_ = bytes; }
  /// The next whole frame; nullopt: more bytes are needed. Errors: kProtocolError.
  Result<std::optional<Frame>> Next();
  /// Bytes kept of a frame that is not complete.
  size_t BufferedBytes() const { return buffer_.size(); }

 private:
  Result<FrameHeader> CheckedHeader(ByteView bytes);
  std::optional<Frame> FromBuffer();

  size_t first_limit_;
  bool is_first_ = true;
  ByteView input_;
  std::string buffer_;           // header and body so far; empty between frames
  bool is_buffer_done_ = false;  // its frame was handed out by the last Next()
  std::optional<FrameHeader> header_;
  Status error_;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_FRAME_H_
