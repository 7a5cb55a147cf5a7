// SPDX-License-Identifier: Apache-2.0
// The only file that knows Gloo. Its exceptions (gloo::EnforceNotMet is no gloo::Exception) end
// here.
//
// Gloo's buffers that are bound to a connection are used, not its unbound ones: those cost an
// exchange before each message, and when a connection breaks they are not told of a message that is
// on its way out.
#include "collective/mesh.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/name_service.h"

namespace hvdray {
namespace {

using GlooBuffer = std::unique_ptr<gloo::transport::Buffer>;

// A message lies in a slot of its receiver's inbox, behind its length.
constexpr size_t kHeaderBytes = 8;
constexpr size_t kSlotBytes = kHeaderBytes + Mesh::kMessageBytes;
constexpr uint64_t kSlots = 8;
// So often the receiver tells how far it is.
constexpr uint64_t kCreditEvery = kSlots / 2;
constexpr uint64_t kNotices = 2 * Mesh::kMostExpected;
// What goes over a connection. Each has an end there; each large message one of its own, in turn.
enum Kind : uint8_t { kMessage, kNotice, kCredit, kPiece, kKinds };
constexpr int kInboundIds = 1 << 20;
// Of Gloo's unbound buffers.
constexpr uint64_t kFarewellSlot = 1;
constexpr uint64_t kAnswerSlot = 2;
constexpr uint64_t kProbeSlot = 3;
constexpr int kNobody = -1;
// A rank that ends the mesh waits so long for its last words to go.
constexpr std::chrono::milliseconds kLastWords{50};
// So often a rank looks, while all meet, whether it waits in vain.
constexpr std::chrono::milliseconds kLook{100};
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24) * 3650;

// "The memory of inbound message `id` is there."
struct Notice {
  uint64_t bytes = 0;
  uint64_t id = 0;
};

// A rank's last word to a peer. It leaves: what the peer has got of each kind when it has got all.
// Or it ends the mesh, and says why: otherwise a third rank would blame the one whose connection it
// sees break first.
struct Farewell {
  uint64_t sent[kKinds] = {};
  char why[127] = {};  // ends with a zero; empty when it leaves
  char has_come = 0;   // the last to arrive
};

// Gloo's errors are exceptions: calls `act` and returns what it throws.
template <typename Act>
Status Guarded(const Act& act) {
  try {
    act();
    return {};
  } catch (const std::exception& error) {
    // "[./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:4711"
    std::string what = error.what();
    if (const size_t place = what.find("] "); what.starts_with("[") && place != std::string::npos) {
      what.erase(0, place + 2);
    }
    const bool is_timeout = what.starts_with("Read timeout") || what.starts_with("Write timeout");
    return {is_timeout ? ErrorCode::kDeadlineExceeded : ErrorCode::kAborted, std::move(what)};
  }
}

// Gloo takes memory that it only reads by a pointer to non-const.
void* Mutable(const void* data) { return const_cast<void*>(data); }  // NOLINT

// Gloo writes to its peers with plain write(2), also from a thread of its own: without this a peer
// that dies may take us along before there is an error to return.
void IgnoreSigpipe() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

// At the interface, or else at the first of the addresses of this host's name that can be had. Gloo
// would look up the name itself, which a static program can't. Throws Gloo's exceptions.
std::shared_ptr<gloo::transport::Device> OpenDevice(const std::string& interface) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = interface;
  if (!interface.empty()) return gloo::transport::tcp::CreateDevice(attributes);
  std::array<char, HOST_NAME_MAX + 1> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  const Result<AddressList> found = FindHost(name.data(), 0);
  if (!found.ok()) {
    throw gloo::IoException(fmt::format("this host's name {}: {}; --network-interface helps",
                                        name.data(), found.status().message()));
  }
  for (const addrinfo* each = found->get();; each = each->ai_next) {
    std::array<char, NI_MAXHOST> number{};
    (void)::getnameinfo(each->ai_addr, each->ai_addrlen, number.data(), number.size(), nullptr, 0,
                        NI_NUMERICHOST);
    attributes.hostname = number.data();
    try {
      return gloo::transport::tcp::CreateDevice(attributes);
    } catch (const std::exception&) {
      if (each->ai_next == nullptr) throw;
    }
  }
}

}  // namespace

// Gloo adds it to a clock in nanoseconds, and multiplies it.
constexpr std::chrono::hours kMostTimeout{24 * 365};

class Mesh::Impl {
 public:
  explicit Impl(const CommunicatorOptions& options)
      : timeout_(std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout)),
        check_(options.check) {
    device_ = OpenDevice(options.interface);
    context_ = device_->createContext(options.rank, options.size);
    is_limited_ = options.operation_timeout > Duration::zero();
    const Duration each = is_limited_ ? options.operation_timeout : options.timeout;
    context_->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(
        std::min<Duration>(each, kMostTimeout)));
    peers_.resize(static_cast<size_t>(options.size));
    farewells_.resize(peers_.size());
    own_farewells_.resize(peers_.size());
    answer_ = context_->createUnboundBuffer(&byte_, 1);
    word_ = context_->createUnboundBuffer(own_farewells_.data(),
                                          own_farewells_.size() * sizeof(Farewell));
    probe_ = context_->createUnboundBuffer(&byte_, 1);
    for (int peer = 0; peer < options.size; ++peer) {
      if (peer != options.rank) PrepareEnds(peer);
    }
  }

  // A connection goes after the buffers that are bound to it, and no message is on its way in or
  // out of them by then.
  ~Impl() {
    EndMeeting();
    if (limiter_.joinable()) limiter_.join();
    if (watcher_.joinable()) {
      if (!is_ended_) Leave();
      is_gone_ = true;
      watch_->abortWaitRecv();
      watcher_.join();
    } else {
      End();
    }
    // Whoever is there has answered, so a reset loses nothing; and Gloo's thread has let go of all
    // buffers by then.
    for (Peer& peer : peers_) {
      if (peer.pair != nullptr) (void)Guarded([&] { peer.pair->close(); });
    }
    watch_.reset();
    answer_.reset();
    word_.reset();
    probe_.reset();
    peers_.clear();
    context_.reset();
  }

  int rank() const { return context_->rank; }
  int size() const { return context_->size; }

  Status Connect(Store& store) {
    std::string addresses;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const std::vector<char> bytes = At(peer).pair->address().bytes();
      addresses.append(bytes.begin(), bytes.end());
    }
    HVDRAY_RETURN_IF_ERROR(store.Set(std::to_string(rank()), addresses));
    const size_t length = addresses.size() / static_cast<size_t>(size() - 1);
    // First of all ranks: then all of them know which one has not come.
    const TimePoint deadline = std::chrono::steady_clock::now() + timeout_;
    std::vector<std::string> published(peers_.size());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const Duration left = deadline - std::chrono::steady_clock::now();
      Result<std::string> theirs =
          store.Get(std::to_string(peer), std::max(left, Duration::zero()));
      if (!theirs.ok()) {
        return std::move(theirs).status().WithContext(fmt::format("rank {} did not come", peer));
      }
      if (theirs->size() != addresses.size()) {
        return {ErrorCode::kAborted, fmt::format("rank {} has addresses of another form", peer)};
      }
      published[static_cast<size_t>(peer)] = std::move(*theirs);
    }
    if (is_limited_) limiter_ = std::thread([this] { LimitMeeting(); });
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const std::string& theirs = published[static_cast<size_t>(peer)];
      const size_t place = static_cast<size_t>(rank() < peer ? rank() : rank() - 1) * length;
      WaitFor(peer);
      HVDRAY_RETURN_IF_ERROR(With(peer, [&] {
        At(peer).pair->connect({theirs.begin() + static_cast<ptrdiff_t>(place),
                                theirs.begin() + static_cast<ptrdiff_t>(place + length)});
      }));
    }
    WaitFor(kNobody);
    watch_ = context_->createUnboundBuffer(farewells_.data(), farewells_.size() * sizeof(Farewell));
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == this->rank()) continue;
      Peer& peer = At(rank);
      peer.answer = context_->createUnboundBuffer(&peer.answer_byte, 1);
      HVDRAY_RETURN_IF_ERROR(With(rank, [&] {
        watch_->recv(rank, kFarewellSlot, static_cast<size_t>(rank) * sizeof(Farewell),
                     sizeof(Farewell));
        peer.answer->recv(rank, kAnswerSlot);
      }));
    }
    watcher_ = std::thread([this] { Watch(); });
    return {};
  }

  Status Send(int to, const void* data, size_t bytes) {
    Peer& peer = At(to);
    return With(to, [&] {
      const uint64_t sent = peer.sent[kMessage];
      if (sent == kSlots + peer.taken[kCredit] * kCreditEvery) {
        Take(to, kCredit, *peer.credit_in_end);
      }
      const size_t slot = sent % kSlots;
      if (sent >= kSlots) peer.outbox_ends[slot]->waitSend();  // long done
      char* place = peer.outbox.get() + slot * kSlotBytes;
      const uint64_t length = bytes;
      std::memcpy(place, &length, kHeaderBytes);
      if (bytes > 0) std::memcpy(place + kHeaderBytes, data, bytes);
      peer.outbox_ends[slot]->send(slot * kSlotBytes, kHeaderBytes + bytes, slot * kSlotBytes);
      ++peer.sent[kMessage];
    });
  }

  Status Receive(int from, void* data, size_t bytes) {
    Peer& peer = At(from);
    uint64_t length = 0;
    HVDRAY_RETURN_IF_ERROR(With(from, [&] {
      const uint64_t taken = peer.taken[kMessage];
      Take(from, kMessage, *peer.inbox_end);
      const char* place = peer.inbox.get() + taken % kSlots * kSlotBytes;
      std::memcpy(&length, place, kHeaderBytes);
      if (length == bytes && bytes > 0) std::memcpy(data, place + kHeaderBytes, bytes);
      if ((taken + 1) % kCreditEvery != 0) return;
      if (peer.sent[kCredit]++ > 0) peer.credit_out_end->waitSend();  // long done
      peer.credit_out_end->send(0, sizeof(peer.credit_out), 0);
    }));
    return CheckSize(from, bytes, length);
  }

  Result<std::unique_ptr<Inbound>> Expect(int from, void* memory, size_t bytes);
  Result<std::unique_ptr<Outbound>> Offer(int to, size_t bytes);

  // Ends all waits of this rank and its connections, which ends the waits of the others.
  // `why`: if it is known; otherwise it is found out.
  void End(const std::string& why = {}) {
    const std::lock_guard lock(mutex_);
    EndLocked(why);
  }

  void EndLocked(const std::string& why = {}) {
    if (is_ended_) return;
    FindCulprit(why);  // before all connections are broken
    is_ended_ = true;
    if (!is_leaving_) TellWhy(culprit_);
    // A wait that times out is what Gloo has to break all connections of a context.
    (void)Guarded([&] { probe_->waitRecv(nullptr, std::chrono::milliseconds(1)); });
    end_.notify_all();
    if (on_end_) on_end_();
  }

  void EndMeeting() {
    const std::lock_guard lock(mutex_);
    is_limited_ = false;
    end_.notify_all();
  }

  bool AwaitEnd(Duration longest) {
    std::unique_lock lock(mutex_);
    return end_.wait_for(lock, longest, [&] { return is_ended_.load(); });
  }

  void OnEnd(std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    on_end_ = std::move(act);
  }

  Status CheckAlive() {
    if (!is_ended_) return {};
    const std::lock_guard lock(mutex_);
    return {ErrorCode::kAborted, culprit_.empty() ? std::string(kEnded) : culprit_};
  }

  // Runs `act`, which uses the connection to `peer`; an error ends the mesh.
  template <typename Act>
  Status With(int peer, const Act& act) {
    Status status = Guarded(act);
    if (status.ok()) return status;
    if (status.code() == ErrorCode::kDeadlineExceeded) {
      status = {status.code(), LateText(peer)};
      End(status.message());
      return status;
    }
    End(WhoHasLeft());
    const Status known = CheckAlive();
    return {status.code(), fmt::format("{}: {}", known.message(), status.message())};
  }

 private:
  struct Peer {
    gloo::transport::Pair* pair = nullptr;
    // kSlots of kSlotBytes, which cost memory as they are used.
    std::unique_ptr<char[]> inbox;   // NOLINT(modernize-avoid-c-arrays)
    std::unique_ptr<char[]> outbox;  // NOLINT(modernize-avoid-c-arrays)
    std::vector<Notice> notices_in = std::vector<Notice>(kNotices);
    std::vector<Notice> notices_out = std::vector<Notice>(kNotices);
    char credit_in = 0;
    char credit_out = 0;
    GlooBuffer inbox_end;
    std::vector<GlooBuffer> outbox_ends;  // one a slot
    GlooBuffer notice_in_end;
    std::vector<GlooBuffer> notice_out_ends;  // one a notice
    GlooBuffer credit_in_end;
    GlooBuffer credit_out_end;
    uint64_t sent[kKinds] = {};
    uint64_t taken[kKinds] = {};  // changes with mutex_ held
    bool has_left = false;        // guarded by mutex_
    bool is_answered = false;     // guarded by mutex_
    char answer_byte = 0;
    std::unique_ptr<gloo::transport::UnboundBuffer> answer;  // to our own farewell
  };

  class GlooInbound;
  class GlooOutbound;

  std::string LateText(int peer) const {
    return fmt::format("rank {} of {} did not come within {} s", peer, size(),
                       std::chrono::duration<double>(timeout_).count());
  }

  // The time limit of Gloo's connections is that of operations, and fixed when they are made. What
  // this rank waits for elsewhere has a limit of its own. One that has died before it connects is
  // known to nobody here.
  void LimitMeeting() {
    std::unique_lock lock(mutex_);
    while (!end_.wait_for(lock, kLook, [this] { return !is_limited_ || is_ended_; })) {
      const Status alive = check_ ? check_() : Status();
      if (!alive.ok()) return EndLocked(alive.message());
      if (waits_for_ == kNobody || std::chrono::steady_clock::now() < waits_since_ + timeout_) {
        continue;
      }
      return EndLocked(LateText(waits_for_));
    }
  }

  void WaitFor(int peer) {
    const std::lock_guard lock(mutex_);
    SetAwaited(peer);
  }

  // With mutex_ held. Only a meeting asks since when.
  void SetAwaited(int peer) {
    waits_for_ = peer;
    if (is_limited_) waits_since_ = std::chrono::steady_clock::now();
  }

  Peer& At(int peer) { return peers_[static_cast<size_t>(peer)]; }

  // Gloo looks up the ends of both directions of a connection by one number.
  static int SlotOf(int receiver, int sender, int kind) {
    return 2 * kind + (receiver < sender ? 0 : 1);
  }

  void PrepareEnds(int rank) {
    Peer& peer = At(rank);
    const int me = context_->rank;
    peer.pair = context_->createPair(rank).get();
    peer.inbox.reset(new char[kSlots * kSlotBytes]);   // NOLINT: not cleared, so not touched
    peer.outbox.reset(new char[kSlots * kSlotBytes]);  // NOLINT
    peer.inbox_end = peer.pair->createRecvBuffer(SlotOf(me, rank, kMessage), peer.inbox.get(),
                                                 kSlots * kSlotBytes);
    for (uint64_t i = 0; i < kSlots; ++i) {
      peer.outbox_ends.push_back(peer.pair->createSendBuffer(
          SlotOf(rank, me, kMessage), peer.outbox.get(), kSlots * kSlotBytes));
    }
    peer.notice_in_end = peer.pair->createRecvBuffer(
        SlotOf(me, rank, kNotice), peer.notices_in.data(), kNotices * sizeof(Notice));
    for (uint64_t i = 0; i < kNotices; ++i) {
      peer.notice_out_ends.push_back(peer.pair->createSendBuffer(
          SlotOf(rank, me, kNotice), peer.notices_out.data(), kNotices * sizeof(Notice)));
    }
    peer.credit_in_end = peer.pair->createRecvBuffer(SlotOf(me, rank, kCredit), &peer.credit_in, 1);
    peer.credit_out_end =
        peer.pair->createSendBuffer(SlotOf(rank, me, kCredit), &peer.credit_out, 1);
  }

  Status CheckSize(int peer, size_t bytes, size_t theirs) {
    if (bytes == theirs) return {};
    Status status(
        ErrorCode::kAborted,
        fmt::format("rank {} calls for {} bytes where rank {} calls for {}: not the same operation",
                    peer, theirs, rank(), bytes));
    End(status.message());
    return status;
  }

  // Waits for the next of `kind` from a peer. Throws as Gloo does, and when none will come.
  void Take(int from, Kind kind, gloo::transport::Buffer& end) {
    {
      const std::lock_guard lock(mutex_);
      SetAwaited(from);
      awaited_ = kind;
      ThrowIfInVain();
    }
    end.waitRecv();
    const std::lock_guard lock(mutex_);
    waits_for_ = kNobody;
    ++At(from).taken[kind];
    AnswerFarewell(from, false);
  }

  bool IsInVain() {
    return waits_for_ != kNobody && At(waits_for_).has_left &&
           At(waits_for_).taken[awaited_] ==
               farewells_[static_cast<size_t>(waits_for_)].sent[awaited_];
  }

  /// Of whom this rank waits for something that will not come; empty: of nobody.
  std::string LeaverText() {
    return IsInVain() ? fmt::format("rank {} of {} has left", waits_for_, size()) : std::string();
  }
  std::string WhoHasLeft() {
    const std::lock_guard lock(mutex_);
    return LeaverText();
  }

  void ThrowIfInVain() {
    if (IsInVain()) throw gloo::IoException("nothing more comes from it");
  }

  // Ends the mesh when a peer dies, also for a rank that waits for another one. A peer that leaves
  // says so before, and concerns only those who still want something of it.
  void Watch() {
    for (size_t come = 1; !is_gone_; ++come) {
      if (!Guarded([&] { watch_->waitRecv(nullptr, kForever); }).ok()) return End();
      const std::lock_guard lock(mutex_);
      // `come` words are whole. Another may be coming, so each is looked at only once.
      std::vector<int> found;
      for (int rank = 0; rank < size(); ++rank) {
        if (HasCome(rank)) found.push_back(rank);
      }
      if (found.size() > come) continue;  // until the others are whole, too
      for (const int rank : found) At(rank).has_left = true;
      if (!Told().empty() || IsInVain()) return EndLocked(LeaverText());
      for (int rank = 0; rank < size(); ++rank) AnswerFarewell(rank, is_leaving_);
    }
  }

  // It may come in this moment; the thread sanitizer can't know that either answer will do.
  __attribute__((no_sanitize("thread"))) bool HasCome(int peer) const {
    const volatile char* has_come = &farewells_[static_cast<size_t>(peer)].has_come;
    return *has_come != 0;
  }

  // With mutex_ held. Not before all that the peer has sent is taken: when a connection ends, Gloo
  // also fails waits for what has come before the end.
  void AnswerFarewell(int rank, bool is_in_any_case) {
    Peer& peer = At(rank);
    if (!peer.has_left || peer.is_answered) return;
    const uint64_t* sent = farewells_[static_cast<size_t>(rank)].sent;
    if (!is_in_any_case &&
        (peer.taken[kMessage] != sent[kMessage] || peer.taken[kPiece] != sent[kPiece])) {
      return;
    }
    peer.is_answered = true;
    (void)Guarded([&] { answer_->send(rank, kAnswerSlot); });
  }

  // Why a peer has ended the mesh, if it has said so. As HasCome().
  __attribute__((no_sanitize("thread"))) std::string Told() const {
    std::string told;
    for (int peer = 0; peer < size() && told.empty(); ++peer) {
      if (!HasCome(peer)) continue;
      std::atomic_thread_fence(std::memory_order_acquire);
      const Farewell& word = farewells_[static_cast<size_t>(peer)];
      for (const volatile char& c : word.why) {
        if (c == 0) break;
        told.push_back(c);
      }
    }
    return told;
  }

  void FindCulprit(const std::string& why) {
    culprit_ = Told();
    if (culprit_.empty()) culprit_ = why;
    std::string leaver;
    for (int peer = 0; peer < size() && culprit_.empty(); ++peer) {
      if (peer == rank() || Guarded([&] { probe_->send(peer, kProbeSlot); }).ok()) continue;
      (HasCome(peer) ? leaver : culprit_) = fmt::format("rank {} of {} has {}", peer, size(),
                                                        HasCome(peer) ? "left" : "died or ended");
    }
    if (culprit_.empty()) culprit_ = leaver;
  }

  void TellWhy(const std::string& why) {
    int told = 0;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank() || HasCome(peer)) continue;
      Farewell& word = own_farewells_[static_cast<size_t>(peer)];
      why.copy(word.why, sizeof(word.why) - 1);
      if (SayFarewell(peer)) ++told;
    }
    for (; told > 0; --told) (void)Guarded([&] { word_->waitSend(nullptr, kLastWords); });
  }

  bool SayFarewell(int peer) {
    own_farewells_[static_cast<size_t>(peer)].has_come = 1;
    const size_t place = static_cast<size_t>(peer) * sizeof(Farewell);
    return Guarded([&] { word_->send(peer, kFarewellSlot, place, sizeof(Farewell)); }).ok();
  }

  // Returns when the others have taken what this rank has sent to them, after the timeout at the
  // latest.
  void Leave() {
    {
      const std::lock_guard lock(mutex_);
      is_leaving_ = true;
      for (int peer = 0; peer < size(); ++peer) AnswerFarewell(peer, true);
    }
    // Also those that have left before: they may still wait for a third rank, and the end of a
    // connection without a word is a death.
    std::vector<int> told;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      Farewell& word = own_farewells_[static_cast<size_t>(peer)];
      std::copy_n(At(peer).sent, kKinds, word.sent);
      if (SayFarewell(peer)) told.push_back(peer);
    }
    // Only the answer says that the word has arrived. Waiting until it is sent could take the whole
    // timeout: Gloo forgets what it had not sent when the connection ends, for one that leaves at
    // the same time may have gone without an answer.
    for (const int peer : told) {
      (void)Guarded([&] { At(peer).answer->waitRecv(nullptr, timeout_); });
    }
  }

  std::chrono::milliseconds timeout_;
  std::function<Status()> check_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::vector<Peer> peers_;
  // What peers say before they leave; to receive it fails when their connection does.
  std::vector<Farewell> farewells_;
  std::unique_ptr<gloo::transport::UnboundBuffer> watch_;
  std::thread watcher_;
  char byte_ = 1;
  std::unique_ptr<gloo::transport::UnboundBuffer> answer_;  // to the peers' farewells
  std::vector<Farewell> own_farewells_;
  std::unique_ptr<gloo::transport::UnboundBuffer> word_;
  std::unique_ptr<gloo::transport::UnboundBuffer> probe_;  // finds out which connections are broken
  std::atomic<bool> is_gone_{false};
  std::mutex mutex_;
  std::thread limiter_;
  bool is_limited_ = false;  // the meeting; guarded by mutex_, as the following
  bool is_leaving_ = false;
  int waits_for_ = kNobody;
  TimePoint waits_since_{};
  Kind awaited_ = kMessage;
  std::atomic<bool> is_ended_{false};
  std::string culprit_;
  std::condition_variable end_;
  std::function<void()> on_end_;
};

class Mesh::Impl::GlooInbound : public Mesh::Inbound {
 public:
  GlooInbound(Impl& mesh, int peer, GlooBuffer end, size_t bytes)
      : mesh_(mesh), peer_(peer), end_(std::move(end)), remaining_(bytes) {}

  // Gloo must not write into the memory any more.
  ~GlooInbound() override {
    if (remaining_ > 0) mesh_.End();
  }

  Status Wait() override {
    HVDRAY_RETURN_IF_ERROR(mesh_.With(peer_, [&] { mesh_.Take(peer_, kPiece, *end_); }));
    remaining_ -= std::min(remaining_, kPieceBytes);
    return {};
  }

 private:
  Impl& mesh_;
  int peer_;
  GlooBuffer end_;
  size_t remaining_;
};

class Mesh::Impl::GlooOutbound : public Mesh::Outbound {
 public:
  GlooOutbound(Impl& mesh, int peer, int slot) : mesh_(mesh), peer_(peer), slot_(slot) {}

  // Gloo must not read the memory any more.
  ~GlooOutbound() override {
    if (!pieces_.empty()) mesh_.End();
  }

  // A buffer a piece: Gloo counts the sends of one without a lock.
  Status Put(const void* data, size_t bytes) override {
    return mesh_.With(peer_, [&] {
      pieces_.push_back(mesh_.At(peer_).pair->createSendBuffer(slot_, Mutable(data), bytes));
      pieces_.back()->send(0, bytes, offset_);
      offset_ += bytes;
      ++mesh_.At(peer_).sent[kPiece];
    });
  }

  Status Flush() override {
    for (; !pieces_.empty(); pieces_.pop_front()) {
      HVDRAY_RETURN_IF_ERROR(mesh_.With(peer_, [&] { pieces_.front()->waitSend(); }));
    }
    return {};
  }

 private:
  Impl& mesh_;
  int peer_;
  int slot_;
  size_t offset_ = 0;
  std::deque<GlooBuffer> pieces_;
};

Result<std::unique_ptr<Mesh::Inbound>> Mesh::Impl::Expect(int from, void* memory, size_t bytes) {
  Peer& peer = At(from);
  std::unique_ptr<Inbound> inbound;
  HVDRAY_RETURN_IF_ERROR(With(from, [&] {
    const uint64_t count = peer.sent[kNotice];
    const uint64_t id = count % kInboundIds;
    inbound = std::make_unique<GlooInbound>(
        *this, from,
        peer.pair->createRecvBuffer(SlotOf(rank(), from, kPiece + static_cast<int>(id)), memory,
                                    bytes),
        bytes);
    const size_t place = count % kNotices;
    if (count >= kNotices) peer.notice_out_ends[place]->waitSend();  // long done
    peer.notices_out[place] = {bytes, id};
    const size_t offset = place * sizeof(Notice);
    peer.notice_out_ends[place]->send(offset, sizeof(Notice), offset);
    ++peer.sent[kNotice];
  }));
  return inbound;
}

Result<std::unique_ptr<Mesh::Outbound>> Mesh::Impl::Offer(int to, size_t bytes) {
  Peer& peer = At(to);
  Notice notice;
  HVDRAY_RETURN_IF_ERROR(With(to, [&] {
    const uint64_t taken = peer.taken[kNotice];
    Take(to, kNotice, *peer.notice_in_end);
    notice = peer.notices_in[taken % kNotices];
  }));
  HVDRAY_RETURN_IF_ERROR(CheckSize(to, bytes, notice.bytes));
  return std::unique_ptr<Outbound>(std::make_unique<GlooOutbound>(
      *this, to, SlotOf(to, rank(), kPiece + static_cast<int>(notice.id % kInboundIds))));
}

Mesh::Mesh(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Mesh::~Mesh() = default;

Result<std::unique_ptr<Mesh>> Mesh::Connect(const CommunicatorOptions& options, Store& store) {
  IgnoreSigpipe();
  std::unique_ptr<Impl> impl;
  HVDRAY_RETURN_IF_ERROR(Guarded([&] { impl = std::make_unique<Impl>(options); }));
  HVDRAY_RETURN_IF_ERROR(impl->Connect(store));
  return std::unique_ptr<Mesh>(new Mesh(std::move(impl)));
}

int Mesh::rank() const { return impl_->rank(); }
int Mesh::size() const { return impl_->size(); }

Status Mesh::Send(int peer, const void* data, size_t bytes) {
  return impl_->Send(peer, data, bytes);
}

Status Mesh::Receive(int peer, void* data, size_t bytes) {
  return impl_->Receive(peer, data, bytes);
}

Result<std::unique_ptr<Mesh::Inbound>> Mesh::Expect(int peer, void* memory, size_t bytes) {
  return impl_->Expect(peer, memory, bytes);
}

Result<std::unique_ptr<Mesh::Outbound>> Mesh::Offer(int peer, size_t bytes) {
  return impl_->Offer(peer, bytes);
}

void Mesh::Abort() { Abort(fmt::format("rank {} of {} gave up", rank(), size())); }
void Mesh::Abort(const std::string& why) { impl_->End(why); }
void Mesh::EndMeeting() { impl_->EndMeeting(); }
bool Mesh::AwaitEnd(Duration longest) { return impl_->AwaitEnd(longest); }
void Mesh::OnEnd(std::function<void()> act) { impl_->OnEnd(std::move(act)); }
Status Mesh::CheckAlive() { return impl_->CheckAlive(); }

}  // namespace hvdray
