// SPDX-License-Identifier: Apache-2.0
#include "agent/measurer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "agent/prober.h"
#include "base/secrets_equal.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::MeasureStep;

// What a connection is for: the byte behind the token.
constexpr char kEcho = 'e';
constexpr char kSink = 's';
constexpr char kGive = 'g';

constexpr size_t kGreetingBytes = wire::kMeasureTokenBytes + 1 + 4;
constexpr size_t kReportBytes = 8;
constexpr size_t kBulkBytes = size_t{256} << 10;
constexpr size_t kMaxGuests = 8;
constexpr Duration kGreetingLimit = std::chrono::seconds(10);
// Beyond the longest window, for the way and a busy host.
constexpr Duration kGuestLimit = milliseconds(wire::kMaxMeasureMs) + std::chrono::seconds(5);
constexpr size_t kMaxRoundTrips = 200;

void PutLittle(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
}

uint64_t GetLittle(ByteView bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

/// What is sent in bulk. The network may compress; no training does.
const std::string& Bulk() {
  static const std::string bulk(kBulkBytes, 'h');
  return bulk;
}

bool IsTryAgain(int error) { return error == EAGAIN || error == EINTR; }

/// Small messages go out at once.
void SetNoDelay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Closing then drops what is queued, which would disturb the next measurement.
void SetDropAtClose(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

ssize_t Send(int fd, ByteView bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool SendWhole(int fd, ByteView bytes) {
  return Send(fd, bytes) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

void RateMeter::Add(size_t bytes, TimePoint now) {
  if (!std::exchange(has_begun_, true)) first_ = now;
  all_bytes_ += bytes;
  if (is_counting_) {
    bytes_ += bytes;
  } else if (now - first_ >= window_ / 4) {
    is_counting_ = true;
    from_ = now;
  }
}

int64_t RateMeter::BytesPerSecond(TimePoint now) const {
  if (!has_begun_) return 0;
  // With one arrival only, such as over a very slow link, all of it counts.
  const bool is_slow = bytes_ == 0;
  const Duration time = now - (is_slow ? first_ : from_);
  const auto ns = static_cast<double>(std::max<int64_t>(time.count(), 1));
  const double rate = static_cast<double>(is_slow ? all_bytes_ : bytes_) / ns * 1e9;
  return static_cast<int64_t>(std::min(rate, 1e15));
}

void MeasureServer::Take(UniqueFd socket) {
  if (guests_.size() >= kMaxGuests) return;
  const uint64_t id = ++last_id_;
  Guest& guest = guests_[id];
  const int fd = socket.get();
  SetNoDelay(fd);
  SetDropAtClose(fd);
  guest.socket = std::move(socket);
  guest.limit = loop_.After(kGreetingLimit, [this, id] { Drop(id); });
  guest.reads = loop_.OnFd(fd, FdEvent::kRead, [this, id] { OnReadable(id); });
}

void MeasureServer::OnReadable(uint64_t id) {
  static std::array<char, kBulkBytes> buffer;  // one loop, one thread
  Guest& guest = guests_.at(id);
  // No byte behind the greeting is read as a part of it.
  const size_t limit = guest.task == 0 ? kGreetingBytes - guest.greeting.size() : buffer.size();
  const ssize_t n = ::recv(guest.socket.get(), buffer.data(), limit, MSG_DONTWAIT);
  if (n < 0 && IsTryAgain(errno)) return;
  if (n <= 0) return Drop(id);
  const ByteView bytes(buffer.data(), static_cast<size_t>(n));
  if (guest.task != 0) return Serve(id, guest, bytes);
  if (!Greet(id, guest, bytes)) Drop(id);
}

bool MeasureServer::Greet(uint64_t id, Guest& guest, ByteView bytes) {
  guest.greeting += bytes;
  // The whole of it first: judged piece by piece, it could be guessed byte by byte.
  if (guest.greeting.size() < kGreetingBytes) return true;
  const ByteView token = ByteView(guest.greeting).substr(0, wire::kMeasureTokenBytes);
  if (!SecretsEqual(token_, token)) return false;
  const ByteView rest = ByteView(guest.greeting).substr(wire::kMeasureTokenBytes);
  const uint64_t window_ms = GetLittle(rest.substr(1));
  if (window_ms > wire::kMaxMeasureMs) return false;
  guest.task = rest[0];
  guest.window = milliseconds(window_ms);
  guest.meter = RateMeter(guest.window);
  guest.limit = loop_.After(kGuestLimit, [this, id] { Drop(id); });
  if (guest.task == kGive) {
    guest.writes = loop_.OnFd(guest.socket.get(), FdEvent::kWrite, [this, id] { OnWritable(id); });
  }
  return guest.task == kEcho || guest.task == kSink || guest.task == kGive;
}

void MeasureServer::Serve(uint64_t id, Guest& guest, ByteView bytes) {
  if (guest.task == kGive) return Drop(id);  // it has nothing to say
  if (guest.task == kEcho) {
    if (!SendWhole(guest.socket.get(), bytes)) Drop(id);
    return;
  }
  // Behind the report, what is still under way is read and dropped: closing would drop the report.
  if (guest.is_told) return;
  if (!guest.meter.has_begun()) {
    guest.end_of_window = loop_.After(guest.window, [this, id] { Tell(id); });
  }
  guest.meter.Add(bytes.size(), loop_.Now());
}

void MeasureServer::Tell(uint64_t id) {
  Guest& guest = guests_.at(id);
  guest.is_told = true;
  std::string report;
  PutLittle(report, static_cast<uint64_t>(guest.meter.BytesPerSecond(loop_.Now())), kReportBytes);
  if (!SendWhole(guest.socket.get(), report)) Drop(id);
}

void MeasureServer::OnWritable(uint64_t id) {
  const ssize_t n = Send(guests_.at(id).socket.get(), Bulk());
  if (n < 0 && !IsTryAgain(errno)) Drop(id);
}

Measurer::Measurer(Loop& loop, const wire::Probe& probe, DoneFn on_done)
    : loop_(loop), probe_(probe), on_done_(std::move(on_done)), buffer_(kBulkBytes) {
  HVDRAY_CHECK(probe_.targets.size() == 1);
  timer_ = loop_.After(milliseconds(probe_.timeout_ms), [this] { Finish(ETIMEDOUT); });
  Begin(MeasureStep::kRoundTrips);
}

void Measurer::Begin(MeasureStep step) {
  step_ = step;
  is_connected_ = false;
  reads_.Cancel();
  writes_.Cancel();
  const int error = StartConnecting(probe_.targets[0], socket_);
  if (error != 0 && error != EINPROGRESS) return Finish(error);
  writes_ = loop_.OnFd(socket_.get(), FdEvent::kWrite, [this] { OnWritable(); });
}

void Measurer::OnConnected() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return Finish(error);
  is_connected_ = true;
  outcome_.step = step_;
  SetNoDelay(socket_.get());
  SetDropAtClose(socket_.get());
  const char task = step_ == MeasureStep::kRoundTrips ? kEcho
                    : step_ == MeasureStep::kSending  ? kSink
                                                      : kGive;
  std::string greeting = probe_.token + task;
  PutLittle(greeting, probe_.measure_ms, 4);
  if (!SendWhole(socket_.get(), greeting)) return Finish(ECONNRESET);
  reads_ = loop_.OnFd(socket_.get(), FdEvent::kRead, [this] { OnReadable(); });
  if (step_ != MeasureStep::kSending) writes_.Cancel();
  began_ = loop_.Now();
  if (step_ == MeasureStep::kRoundTrips) Ping();
  meter_ = RateMeter(milliseconds(probe_.measure_ms));
}

void Measurer::OnWritable() {
  if (!is_connected_) return OnConnected();
  if (Send(socket_.get(), Bulk()) < 0 && !IsTryAgain(errno)) Finish(errno);
}

void Measurer::OnReadable() {
  const ssize_t n = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0 && IsTryAgain(errno)) return;
  if (n <= 0) return Finish(n < 0 ? errno : ECONNRESET);
  const ByteView bytes(buffer_.data(), static_cast<size_t>(n));
  if (step_ == MeasureStep::kRoundTrips) return OnEcho();
  if (step_ == MeasureStep::kSending) return OnReport(bytes);
  OnBulk(bytes.size());
}

void Measurer::Ping() {
  pinged_ = loop_.Now();
  if (!SendWhole(socket_.get(), ".")) Finish(ECONNRESET);
}

void Measurer::OnEcho() {
  const TimePoint now = loop_.Now();
  round_trips_.push_back((now - pinged_).count());
  const bool is_over =
      now - began_ >= milliseconds(probe_.measure_ms) || round_trips_.size() >= kMaxRoundTrips;
  if (!is_over) return Ping();
  // The first one waits for the greeting to be read as well.
  if (round_trips_.size() > 2) round_trips_.erase(round_trips_.begin());
  const auto middle = round_trips_.begin() + static_cast<ptrdiff_t>(round_trips_.size() / 2);
  std::nth_element(round_trips_.begin(), middle, round_trips_.end());
  outcome_.round_trip_ns = *middle;
  Next();
}

void Measurer::OnReport(ByteView bytes) {
  report_ += bytes;
  if (report_.size() < kReportBytes) return;
  const uint64_t rate = GetLittle(ByteView(report_).substr(0, kReportBytes));
  if (report_.size() > kReportBytes || rate > uint64_t{1} << 53) return Finish(EPROTO);
  outcome_.sent_bytes_per_s = static_cast<int64_t>(rate);
  Next();
}

void Measurer::OnBulk(size_t bytes) {
  if (!meter_.has_begun()) {
    end_of_window_ = loop_.After(milliseconds(probe_.measure_ms), [this] {
      outcome_.received_bytes_per_s = meter_.BytesPerSecond(loop_.Now());
      Next();
    });
  }
  meter_.Add(bytes, loop_.Now());
}

void Measurer::Next() {
  if (step_ == MeasureStep::kRoundTrips) return Begin(MeasureStep::kSending);
  if (step_ == MeasureStep::kSending) return Begin(MeasureStep::kReceiving);
  outcome_.step = MeasureStep::kDone;
  Finish(0);
}

void Measurer::Finish(int error) {
  reads_.Cancel();
  writes_.Cancel();
  end_of_window_.Cancel();
  socket_.Reset();
  outcome_.stage = StageOf(error);
  outcome_.error = outcome_.stage == wire::ProbeStage::kTimeout ? 0 : error;
  timer_ = loop_.After(Duration::zero(), [this] { std::exchange(on_done_, nullptr)(outcome_); });
}

}  // namespace hvdray
