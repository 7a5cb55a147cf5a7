// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "wire/message.h"

namespace hvdray::wire {
namespace {

// JSON that contains numbers only: 64 KiB hold all ranges of a DirectoryWanted.
constexpr size_t kMaxSmallJson = size_t{64} << 10;
// Capacity kept between frames; more would let one large value pin its memory.
constexpr size_t kKeptCapacity = size_t{1} << 20;
constexpr size_t kMaxForeignBytes = 128;  // of a line that is no frame

Status Violation(std::string text) { return {ErrorCode::kProtocolError, std::move(text)}; }

/// `bytes` stand where a frame should begin. Quotes the first line of a text.
Status NoFrame(ByteView bytes) {
  const ByteView line =
      bytes.substr(0, std::min({bytes.find('\n'), bytes.find("HVDR"), kMaxForeignBytes}));
  const bool is_text = std::ranges::none_of(line, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\x1b';
  });
  if (line.empty() || !is_text) return Violation("no frame begins here (wrong magic)");
  return {ErrorCode::kProtocolError,
          fmt::format("another program writes into its connection: '{}'", ShownText(line)),
          "redirect what start-up files there (.bashrc) leave in the background: "
          "CMD >/dev/null 2>&1 &"};
}

}  // namespace

void PutU16(std::string& out, uint16_t value) {
  out += static_cast<char>(value & 0xff);
  out += static_cast<char>(value >> 8);
}

void PutU32(std::string& out, uint32_t value) {
  PutU16(out, static_cast<uint16_t>(value & 0xffff));
  PutU16(out, static_cast<uint16_t>(value >> 16));
}

uint16_t GetU16(const char* at) {
  return static_cast<uint16_t>(static_cast<unsigned char>(at[0]) | static_cast<unsigned char>(at[1])
                                                                       << 8);
}

uint32_t GetU32(const char* at) { return GetU16(at) | static_cast<uint32_t>(GetU16(at + 2)) << 16; }

void EncodeHeader(std::string& out, const FrameHeader& header) {
  PutU32(out, kMagic);
  PutU16(out, header.version);
  PutU16(out, header.type);
  PutU32(out, header.length);
  PutU32(out, header.generation);
}

void SetVersion(std::string& frame, uint16_t version) {
  HVDRAY_CHECK(frame.size() >= kHeaderBytes);
  frame[4] = static_cast<char>(version & 0xff);
  frame[5] = static_cast<char>(version >> 8);
}

std::optional<size_t> MaxBodyBytes(uint16_t type) {
  switch (static_cast<MessageType>(type)) {
    case MessageType::kOutput:
    case MessageType::kStdin:
      return kOutputPrefixBytes + kMaxOutput;
    case MessageType::kObjectPiece:
      return 4 + kMaxControlJson + kMaxObjectPiece;
    case MessageType::kStartGeneration:
    case MessageType::kWarm:
    case MessageType::kKvRequest:
    case MessageType::kKvReply:
      return 4 + kMaxControlJson + kMaxRaw;
    case MessageType::kInspect:
      return 4 + kMaxControlJson + kMaxInspectStrings;
    case MessageType::kHello:
      return kMaxAgentHello;
    case MessageType::kWelcome:
    case MessageType::kProbe:
    case MessageType::kProbeResult:
    case MessageType::kWorkerStarted:
    case MessageType::kWorkerExited:
    case MessageType::kCredit:
    case MessageType::kSignal:
    case MessageType::kKvReset:
    case MessageType::kStopGeneration:
    case MessageType::kHeartbeat:
    case MessageType::kBye:
    case MessageType::kGenerationStopped:
    case MessageType::kInspection:
    case MessageType::kFileTaken:
    case MessageType::kBreakConnections:
    case MessageType::kNotify:
    case MessageType::kHostLeaving:
    case MessageType::kConnectionsBroken:
    case MessageType::kWorkerArrived:
    case MessageType::kStopWorkers:
    case MessageType::kGiveObject:
    case MessageType::kMapObject:
    case MessageType::kSharesMemory:
    case MessageType::kDropObject:
    case MessageType::kObjectProblem:
    case MessageType::kWarmed:
      return 4 + kMaxControlJson;
    case MessageType::kDirectoryList:
      return 4 + kMaxSmallJson + kMaxDirectoryRaw;
    case MessageType::kDirectoryWanted:
    case MessageType::kDirectoryProblem:
      return 4 + kMaxSmallJson + kMaxDirectoryPath;
    case MessageType::kFile:
      return 4 + kMaxSmallJson + kMaxFileChunk;
  }
  return std::nullopt;
}

Result<FrameHeader> DecodeHeader(ByteView bytes) {
  HVDRAY_CHECK(bytes.size() >= kHeaderBytes);
  const char* at = bytes.data();
  if (GetU32(at) != kMagic) return NoFrame(bytes);
  const FrameHeader header{GetU16(at + 4), GetU16(at + 6), GetU32(at + 8), GetU32(at + 12)};
  const std::optional<size_t> limit = MaxBodyBytes(header.type);
  if (!limit) return Violation(fmt::format("unknown message type {}", header.type));
  if (header.length > *limit) {
    return Violation(fmt::format("frame of type {} with {} bytes, at most {} allowed", header.type,
                                 header.length, *limit));
  }
  return header;
}

Result<FrameHeader> FrameDecoder::CheckedHeader(ByteView bytes) {
  Result<FrameHeader> header = DecodeHeader(bytes);
  if (header.ok() && is_first_ && header->length > first_limit_) {
    header = Violation(
        fmt::format("first frame with {} bytes, at most {} allowed", header->length, first_limit_));
  }
  if (!header.ok()) {
    error_ = header.status();
    buffer_ = {};
  }
  return header;
}

std::optional<Frame> FrameDecoder::FromBuffer() {
  if (!header_ || buffer_.size() < kHeaderBytes + header_->length) return std::nullopt;
  is_buffer_done_ = true;
  is_first_ = false;
  return Frame{*header_, ByteView(buffer_).substr(kHeaderBytes)};
}

Result<std::optional<Frame>> FrameDecoder::Next() {
  using Outcome = std::optional<Frame>;
  if (!error_.ok()) return error_;
  if (is_buffer_done_) {
    buffer_.clear();
    if (buffer_.capacity() > kKeptCapacity) buffer_ = {};
    header_.reset();
    is_buffer_done_ = false;
  }
  const auto take = [this](size_t wanted) {
    const size_t count = std::min(wanted, input_.size());
    buffer_.append(input_.substr(0, count));
    input_.remove_prefix(count);
  };
  // A frame that is complete in the input is returned without a copy.
  if (buffer_.empty() && input_.size() >= kHeaderBytes) {
    HVDRAY_ASSIGN_OR_RETURN(const FrameHeader header, CheckedHeader(input_));
    if (input_.size() - kHeaderBytes >= header.length) {
      const Frame frame{header, input_.substr(kHeaderBytes, header.length)};
      input_.remove_prefix(kHeaderBytes + header.length);
      is_first_ = false;
      return Outcome(frame);
    }
    header_ = header;
  }
  if (!header_) {
    take(kHeaderBytes - buffer_.size());
    if (buffer_.size() < kHeaderBytes) return Outcome();
    if (GetU32(buffer_.data()) != kMagic) take(kMaxForeignBytes);  // to be quoted
    HVDRAY_ASSIGN_OR_RETURN(header_, CheckedHeader(buffer_));
  }
  take(kHeaderBytes + header_->length - buffer_.size());
  return FromBuffer();
}

}  // namespace hvdray::wire
