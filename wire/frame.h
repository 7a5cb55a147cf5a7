// SPDX-License-Identifier: Apache-2.0
// Frames: the 16-byte header, and cutting a byte stream into frames. Knows message types only by
// number and size. Pure. docs/protocol.md is normative.
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
/// The version of Hello, and of Bye before a version is agreed, forever.
inline constexpr uint16_t kHelloVersion = 1;

// Limits, in bytes.
inline constexpr size_t kMaxLauncherHello = size_t{4} << 10;
inline constexpr size_t kMaxAgentHello = size_t{64} << 10;  ///< It contains the host's facts.
inline constexpr size_t kMaxControlJson = size_t{1} << 20;
inline constexpr size_t kMaxKvValue = size_t{16} << 20;
inline constexpr size_t kMaxKvNames = size_t{16} << 10;  ///< Scope and key together.
inline constexpr size_t kMaxRaw = kMaxKvValue + kMaxKvNames;
inline constexpr size_t kMaxOutput = size_t{64} << 10;
inline constexpr size_t kOutputPrefixBytes = 8;  ///< rank u32 | stream u8 | flags u8 | reserved u16

struct FrameHeader {
  uint16_t version = kHelloVersion;
  uint16_t type = 0;    ///< A MessageType, possibly unknown.
  uint32_t length = 0;  ///< Bytes of the body.
  Generation generation = 0;
  bool operator==(const FrameHeader&) const = default;
};

/// One frame, in memory of the decoder or of its caller.
struct Frame {
  FrameHeader header;
  ByteView body;  ///< Valid until the next call of the decoder.
};

/// Appends a little-endian number, as all numbers on the wire are.
void PutU16(std::string& out, uint16_t value);
void PutU32(std::string& out, uint32_t value);
/// Reads a little-endian number of 2 or 4 bytes at `at`.
uint16_t GetU16(const char* at);
uint32_t GetU32(const char* at);

/// Appends the 16 bytes of a header.
void EncodeHeader(std::string& out, const FrameHeader& header);
/// Overwrites the version in an encoded frame.
void SetVersion(std::string& frame, uint16_t version);

/// Reads and checks magic, type and length from the first 16 bytes of `bytes`, which must have that
/// many. Errors: kProtocolError, also for unknown types, which have no limit.
Result<FrameHeader> DecodeHeader(ByteView bytes);

/// The largest body of a frame of `type`, in bytes; nullopt: unknown type.
std::optional<size_t> MaxBodyBytes(uint16_t type);

/// Cuts a byte stream into frames. It buffers what has arrived of one frame and never allocates the
/// length that a header claims. After an error, every call fails. Threads: one.
class FrameDecoder {
 public:
  /// first_limit: largest body of the first frame, of any type, in bytes (kMaxLauncherHello, …).
  explicit FrameDecoder(size_t first_limit) : first_limit_(first_limit) {}

  /// Adds input. `bytes` must stay valid, and Push() must not be called again, until Next() has
  /// returned nullopt.
  void Push(ByteView bytes) { input_ = bytes; }
  /// The next complete frame; nullopt: more input is needed. Errors: kProtocolError.
  Result<std::optional<Frame>> Next();
  /// Bytes buffered of an incomplete frame.
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
