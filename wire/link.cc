// SPDX-License-Identifier: Apache-2.0
#include "wire/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "wire/announcement.h"
#include "wire/frame.h"
#include "wire/message_codec.h"
#include "wire/send_lanes.h"

namespace hvdray::wire {
namespace {

constexpr unsigned kLooksPerHeartbeat = 4;

// Bytes handed to the stream ahead of time: enough to keep it busy, and the most that control
// messages wait for.
constexpr size_t kHandedBytes = size_t{64} << 10;

bool IsOutputLane(const Body& body) {
  return std::holds_alternative<Output>(body) || std::holds_alternative<Stdin>(body) ||
         std::holds_alternative<GenerationStopped>(body) || std::holds_alternative<File>(body) ||
         std::holds_alternative<ObjectPiece>(body) || std::holds_alternative<GiveObject>(body) ||
         std::holds_alternative<MapObject>(body) || std::holds_alternative<DropObject>(body);
}

/// Hello, Credit, Heartbeat and Bye go both ways.
bool MayBeSentBy(LinkRole role, MessageType type) {
  switch (type) {
    case MessageType::kHello:
    case MessageType::kCredit:
    case MessageType::kHeartbeat:
    case MessageType::kBye:
      return true;
    case MessageType::kWorkerStarted:
    case MessageType::kWorkerExited:
    case MessageType::kOutput:
    case MessageType::kKvRequest:
    case MessageType::kGenerationStopped:
    case MessageType::kProbeResult:
    case MessageType::kInspection:
    case MessageType::kDirectoryWanted:
    case MessageType::kFileTaken:
    case MessageType::kDirectoryProblem:
    case MessageType::kHostLeaving:
    case MessageType::kConnectionsBroken:
    case MessageType::kWorkerArrived:
    case MessageType::kObjectProblem:
    case MessageType::kSharesMemory:
    case MessageType::kWarmed:
      return role == LinkRole::kAgent;
    case MessageType::kWelcome:
    case MessageType::kProbe:
    case MessageType::kStartGeneration:
    case MessageType::kStdin:
    case MessageType::kSignal:
    case MessageType::kKvReply:
    case MessageType::kKvReset:
    case MessageType::kStopGeneration:
    case MessageType::kInspect:
    case MessageType::kDirectoryList:
    case MessageType::kFile:
    case MessageType::kBreakConnections:
    case MessageType::kNotify:
    case MessageType::kStopWorkers:
    case MessageType::kObjectPiece:
    case MessageType::kGiveObject:
    case MessageType::kMapObject:
    case MessageType::kDropObject:
    case MessageType::kWarm:
      return role == LinkRole::kLauncher;
  }
  return false;
}

class StreamLink : public Link, private ByteStream::Owner {
 public:
  StreamLink(Loop& loop, LinkRole role, std::unique_ptr<ByteStream> stream)
      : loop_(loop),
        role_(role),
        stream_(std::move(stream)),
        decoder_(role == LinkRole::kLauncher ? kMaxAgentHello : kMaxLauncherHello) {}

  void Start(Link::Owner& owner) override {
    owner_ = &owner;
    stream_->Start(*this);
    is_started_ = true;
    if (role_ == LinkRole::kLauncher) {
      scanner_.emplace();
      return;
    }
    const Result<Announcement> announcement = MakeAnnouncement();
    if (!announcement.ok()) return FailLater(announcement.status());
    stream_->Write(FormatAnnouncement(*announcement));
    Pump();
  }

  void Send(Message message) override {
    if (state_ != State::kOpen) return;
    const bool is_hello = std::holds_alternative<Hello>(message.body);
    HVDRAY_CHECK(!is_hello || !own_hello_);
    Result<std::string> frame = EncodeMessage(message, version_.value_or(kMaxVersion));
    if (!frame.ok()) return FailLater(frame.status());
    if (is_hello) {
      hello_frame_ = std::move(frame).value();
      own_hello_ = std::get<Hello>(std::move(message.body));
      const Status agreed = Agree();
      if (!agreed.ok()) return FailLater(agreed);
    } else if (IsOutputLane(message.body)) {
      lanes_.PushOutput(std::move(frame).value());
      is_room_owed_ = is_room_owed_ || !HasOutputRoom();
    } else {
      lanes_.PushControl(std::move(frame).value());
      is_control_room_owed_ = is_control_room_owed_ || !HasControlRoom();
    }
    Pump();
    if (is_hello && IsRoomDue()) {
      room_later_ = loop_.After(Duration::zero(), [this] { NotifyRoom(); });
    }
  }

  bool HasOutputRoom() const override { return lanes_.output_bytes() < kOutputLaneBytes; }
  bool HasControlRoom() const override { return lanes_.control_bytes() < kControlLaneBytes; }

  void StartHeartbeat(Duration period, Duration timeout) override {
    if (state_ != State::kOpen) return;
    // Silence is checked more often than heartbeats are sent, so that a loss is noticed at its
    // timeout and not up to a period later.
    const auto look = std::max<Duration>(period / kLooksPerHeartbeat, std::chrono::milliseconds(1));
    monitor_.emplace(look, timeout, loop_.Now());
    monitor_->OnHeartbeat(is_peer_paused_);
    looks_ = 0;
    heartbeat_ = loop_.Every(look, [this] { OnHeartbeatDue(); });
  }

  void Close(Bye bye, Duration deadline, std::function<void()> on_done) override {
    on_done_ = std::move(on_done);
    if (state_ != State::kOpen) return FinishClose();
    state_ = State::kClosing;
    heartbeat_.Cancel();
    if (!version_) {
      // Only a Hello can have been sent. A peer that has not announced itself reads no frames.
      lanes_.Clear();
      if (is_started_ && !scanner_) WriteBye(bye);
    } else {
      lanes_.PushOutput(EncodeBye(bye));
    }
    later_ = loop_.After(deadline, [this] { FinishClose(); });
    Pump();
    FinishCloseIfSent();
  }

  size_t QueuedBytes() const override {
    return hello_frame_.size() + lanes_.bytes() + (stream_ ? stream_->QueuedBytes() : 0);
  }

  bool IsTimedOut() const override { return is_timed_out_; }

 private:
  enum class State : uint8_t { kOpen, kClosing, kClosed };

  void OnData(ByteView bytes) override {
    if (monitor_) monitor_->OnBytes();
    if (state_ != State::kOpen) return;
    if (scanner_ && !Scan(bytes)) return;
    decoder_.Push(bytes);
    is_corked_ = true;
    while (state_ == State::kOpen) {
      Result<std::optional<Frame>> frame = decoder_.Next();
      if (!frame.ok()) {
        Violation(frame.status());
        return;
      }
      if (!frame->has_value()) break;
      if (!HandleFrame(**frame)) return;
    }
    is_corked_ = false;
    Pump();
    FinishCloseIfSent();
    NotifyRoom();
  }

  /// True: the agent has announced itself and `bytes` are frames.
  bool Scan(ByteView& bytes) {
    for (;;) {
      const Result<AnnouncementScanner::Event> event = scanner_->Next(bytes);
      if (!event.ok()) {
        Closed(event.status());
        return false;
      }
      switch (*event) {
        case AnnouncementScanner::Event::kNeedMore:
          return false;
        case AnnouncementScanner::Event::kNoise:
          owner_->OnNoise(scanner_->noise());
          if (state_ != State::kOpen) return false;
          break;
        case AnnouncementScanner::Event::kAnnounced:
          Log(LogLevel::kDebug, "link", "agent announced itself: pid {} nonce {}",
              scanner_->announcement().pid, scanner_->announcement().nonce);
          scanner_.reset();
          Pump();
          return true;
      }
    }
  }

  /// False: it ended the link, and the owner may have destroyed it.
  bool HandleFrame(const Frame& frame) {
    const auto type = static_cast<MessageType>(frame.header.type);
    Status status = CheckOrder(frame.header, type);
    if (!status.ok()) return Violation(std::move(status));
    Result<Message> message = DecodeMessage(frame.header, frame.body);
    if (!message.ok()) return Violation(message.status());
    if (const auto* beat = std::get_if<Heartbeat>(&message->body)) {
      is_peer_paused_ = beat->is_paused;
      if (monitor_) monitor_->OnHeartbeat(beat->is_paused);
      return true;
    }
    if (auto* bye = std::get_if<Bye>(&message->body)) {
      return Closed(bye->code == 0 ? Status() : Status(ErrorCode{bye->code}, std::move(bye->text)));
    }
    if (const auto* hello = std::get_if<Hello>(&message->body)) {
      peer_hello_ = *hello;
      status = Agree();
      if (!status.ok()) return Violation(std::move(status));
    }
    owner_->OnMessage(std::move(message).value());
    return true;
  }

  Status CheckOrder(const FrameHeader& header, MessageType type) const {
    const auto violation = [](std::string text) {
      return Status(ErrorCode::kProtocolError, std::move(text));
    };
    if (type == MessageType::kHello && peer_hello_) return violation("a second Hello");
    if (!version_ && type != MessageType::kHello && type != MessageType::kBye) {
      return violation(fmt::format("{} before the Hellos", Name(type)));
    }
    const uint16_t version =
        type == MessageType::kHello ? kHelloVersion : version_.value_or(kHelloVersion);
    if (header.version != version) {
      return violation(
          fmt::format("{} of version {}, agreed is {}", Name(type), header.version, version));
    }
    const LinkRole peer = role_ == LinkRole::kAgent ? LinkRole::kLauncher : LinkRole::kAgent;
    if (!MayBeSentBy(peer, type)) {
      return violation(fmt::format("{} from the wrong side", Name(type)));
    }
    return {};
  }

  /// Once both Hellos are known: chooses the highest common version.
  Status Agree() {
    if (!own_hello_ || !peer_hello_) return {};
    const uint16_t version = std::min(own_hello_->max_version, peer_hello_->max_version);
    if (version < std::max(own_hello_->min_version, peer_hello_->min_version)) {
      return {
          ErrorCode::kProtocolMismatch,
          fmt::format("'{}' here and '{}' there share no protocol version: {} to {}, {} to {}",
                      own_hello_->build, peer_hello_->build, own_hello_->min_version,
                      own_hello_->max_version, peer_hello_->min_version, peer_hello_->max_version),
          "install the same hvdray on both hosts"};
    }
    version_ = version;
    lanes_.SetVersion(version);
    return {};
  }

  void Pump() {
    if (!is_started_ || state_ == State::kClosed || scanner_) return;
    if (!hello_frame_.empty()) stream_->Write(std::exchange(hello_frame_, {}));
    if (is_corked_) return;
    while (version_ && stream_->QueuedBytes() < kHandedBytes && !lanes_.is_empty()) {
      stream_->Write(lanes_.Pop());
    }
  }

  void FinishCloseIfSent() {
    if (state_ != State::kClosing || !lanes_.is_empty()) return;
    if (!is_started_ || stream_->QueuedBytes() == 0) FinishClose();
  }

  void OnDrained() override {
    Pump();
    FinishCloseIfSent();
    NotifyRoom();
  }

  bool IsRoomDue() const {
    return is_room_owed_ && state_ == State::kOpen && lanes_.output_bytes() < kOutputLaneBytes / 2;
  }

  void NotifyRoom() {
    const bool is_control_room_due = is_control_room_owed_ && state_ == State::kOpen &&
                                     lanes_.control_bytes() < kControlLaneBytes / 2;
    if (is_control_room_due) {
      is_control_room_owed_ = false;
      owner_->OnControlRoom();
    }
    if (!IsRoomDue()) return;
    is_room_owed_ = false;
    owner_->OnOutputRoom();
  }

  void OnHeartbeatDue() {
    if (monitor_->IsLostAt(loop_.Now())) {
      is_timed_out_ = true;
      const double silence_s = Seconds(monitor_->Silence()).count();
      if (role_ == LinkRole::kAgent) {
        // A stopped launcher finds the reason when it continues.
        WriteBye({static_cast<uint16_t>(ErrorCode::kAgentLost),
                  fmt::format("the agent heard nothing from the launcher for {:.1f} s and gave up",
                              silence_s)});
      }
      Closed({ErrorCode::kAgentLost, fmt::format("silent for {:.1f} s", silence_s)});
      return;
    }
    if (++looks_ % kLooksPerHeartbeat != 0) return;
    // A peer that does not read finds one heartbeat waiting, not one per period.
    if (!lanes_.has_control()) Send({0, Heartbeat{}});
  }

  std::string EncodeBye(const Bye& bye) const {
    Result<std::string> frame = EncodeMessage({0, bye}, version_.value_or(kHelloVersion));
    if (!frame.ok())
      frame = EncodeMessage({0, Bye{bye.code, {}}}, version_.value_or(kHelloVersion));
    return std::move(frame).value();
  }

  void WriteBye(const Bye& bye) {
    if (!hello_frame_.empty()) stream_->Write(std::exchange(hello_frame_, {}));
    stream_->Write(EncodeBye(bye));
  }

  /// The peer broke the protocol: tells it, if it still reads, and gives it up.
  bool Violation(Status status) {
    WriteBye({static_cast<uint16_t>(status.code()), status.message()});
    return Closed(std::move(status));
  }

  void FailLater(const Status& status) {
    later_ = loop_.After(Duration::zero(), [this, status] {
      if (is_started_ && !scanner_) {
        Violation(status);
      } else {
        Closed(status);
      }
    });
  }

  void OnClosed(Status status) override {
    if (state_ == State::kClosing) return FinishClose();
    if (state_ == State::kClosed) return;
    if (scanner_) {
      const std::string last_words = scanner_->unfinished();
      if (!last_words.empty()) owner_->OnNoise(last_words);
      Closed({ErrorCode::kAgentStartFailed,
              status.ok() ? "ended before it announced itself" : status.message()});
      return;
    }
    Closed(
        {ErrorCode::kAgentLost, status.ok() ? "the link closed without a Bye" : status.message()});
  }

  /// Tells the owner, which may destroy the link; false, as HandleFrame() returns it.
  bool Closed(Status status) {
    if (state_ != State::kOpen) return false;
    state_ = State::kClosed;
    heartbeat_.Cancel();
    later_.Cancel();
    lanes_.Clear();
    stream_.reset();
    if (owner_ != nullptr) owner_->OnClosed(std::move(status));
    return false;
  }

  void FinishClose() {
    state_ = State::kClosed;
    later_ = loop_.After(Duration::zero(), [this] {
      stream_.reset();
      if (const auto on_done = std::exchange(on_done_, nullptr)) on_done();
    });
  }

  Loop& loop_;
  const LinkRole role_;
  std::unique_ptr<ByteStream> stream_;
  Link::Owner* owner_ = nullptr;                // since Start()
  std::optional<AnnouncementScanner> scanner_;  // while the launcher waits for the announcement
  FrameDecoder decoder_;
  SendLanes lanes_;
  std::string hello_frame_;  // ours, until it is written
  std::optional<Hello> own_hello_;
  std::optional<Hello> peer_hello_;
  std::optional<uint16_t> version_;  // agreed
  std::optional<HeartbeatMonitor> monitor_;
  Watch heartbeat_;
  unsigned looks_ = 0;  // since heartbeats began
  Watch
      later_;  // ends the link: reports a failure, keeps the deadline of Close(), frees the stream
  Watch room_later_;
  std::function<void()> on_done_;
  State state_ = State::kOpen;
  bool is_started_ = false;
  bool is_corked_ = false;  // answers to one read leave in one write
  bool is_room_owed_ = false;
  bool is_control_room_owed_ = false;
  bool is_peer_paused_ = false;
  bool is_timed_out_ = false;
};

}  // namespace

std::unique_ptr<Link> MakeLink(Loop& loop, LinkRole role, std::unique_ptr<ByteStream> stream) {
  return std::make_unique<StreamLink>(loop, role, std::move(stream));
}

bool HeartbeatMonitor::IsLostAt(TimePoint now) {
  const Duration since_tick = now - ticked_at_;
  ticked_at_ = now;
  if (is_heard_ || is_peer_paused_) {
    is_heard_ = false;
    heard_at_ = now;
    return false;
  }
  // A late tick means that we did not run; what the peer sent meanwhile is still unread.
  if (since_tick > 2 * period_) heard_at_ += since_tick - period_;
  return timeout_ > Duration::zero() && now - heard_at_ > timeout_;
}

}  // namespace hvdray::wire
