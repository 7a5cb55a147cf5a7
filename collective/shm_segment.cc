// SPDX-License-Identifier: Apache-2.0
#include "collective/shm_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/secrets_equal.h"
#include "base/signals.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr uint32_t kEnded = 0x80000000;              // in a counter: its owner posts no more
constexpr uint64_t kMagic = 0x31'4d'48'53'44'56'48;  // "HVDSHM1"
// In Header::reason: what is known of that rank. Otherwise it has died.
constexpr uint32_t kAbortedBy = 0x40000000;
constexpr uint32_t kWasLate = 0x20000000;
constexpr uint32_t kHasLeft = 0x10000000;
constexpr uint32_t kRankBits = 0x0FFFFFFF;
constexpr size_t kPage = 4096;

// With a processor for each rank, a peer is rarely late by more than a few microseconds, and giving
// up the processor costs as much. Without one, a rank that spins keeps away the rank that it waits
// for.
constexpr int kSpins = 500;
constexpr int kSpinsOfMany = 20;
constexpr int kYields = 50;
constexpr int kYieldsOfMany = 200;
// A peer that runs has done its part of a round before.
constexpr std::chrono::microseconds kLongWait{100};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  static_assert(sizeof word == sizeof(uint32_t));
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void WakeAll(std::atomic<uint32_t>& word) { (void)Futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

timespec Timespec(Duration left) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
}

int ProcessorCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Where the parts of the memory begin.
struct Layout {
  size_t bell;
  size_t counters;
  size_t ring_counters;
  size_t slots;
  size_t rings;
  size_t ring_bytes;
  size_t places;
  size_t end;
};

}  // namespace

struct ShmSegment::Header {
  uint64_t magic;
  std::array<char, kTokenBytes> token;
  std::atomic<uint32_t> reason;  // 0: all is well; else rank + 1, and what it did
  uint32_t size;
  // Then a pid_t for each rank, and a byte that says that it has left of its own will.
  pid_t* pids() { return reinterpret_cast<pid_t*>(this + 1); }
  std::atomic<uint8_t>* left() { return reinterpret_cast<std::atomic<uint8_t>*>(pids() + size); }
};

namespace {

Layout LayoutFor(size_t size) {
  // A ring of 64 KiB keeps two ranks of a pair busy; many ranks have many pairs.
  const size_t ring_bytes =
      std::clamp(std::bit_floor((size_t{1} << 20) / size), kPage, size_t{64} << 10);
  Layout layout{};
  layout.bell = RoundUp(128 + size * (sizeof(pid_t) + 1), sizeof(ShmCounter));
  layout.counters = RoundUp(layout.bell + sizeof(ShmCounter), kPage);
  layout.ring_counters =
      layout.counters + RoundUp(size * ShmSegment::kPhases * sizeof(ShmCounter), kPage);
  layout.slots = layout.ring_counters + RoundUp(size * size * 2 * sizeof(ShmCounter), kPage);
  layout.rings = layout.slots + size * ShmSegment::kSlots * ShmSegment::kSlotBytes;
  layout.ring_bytes = ring_bytes;
  const size_t rings_end = layout.rings + size * size * ring_bytes;
  layout.places = rings_end + kPage / 2;
  layout.end = rings_end + (size == 2 ? 2 * ShmSegment::kMostPlaceBytes + kPage : 0);
  return layout;
}

Status OutOfMemory(const char* call, size_t bytes, int error) {
  if (error == ENOSPC || error == ENOMEM || error == EFBIG || error == EMFILE || error == ENFILE) {
    return {ErrorCode::kOutOfResources,
            fmt::format("{} KiB of shared memory: {}: {}", bytes >> 10, call, std::strerror(error)),
            "the limits are those of memory (ulimit -f, the cgroup), not of /dev/shm; "
            "HVDRAY_COLLECTIVE=gloo needs none"};
  }
  return ErrnoStatus(call, error);
}

}  // namespace

Result<UniqueFd> ShmSegment::Create(std::span<const pid_t> pids, std::string_view token) {
  HVDRAY_CHECK(token.size() == kTokenBytes);
  static_assert(sizeof(Header) <= 128);
  const Layout layout = LayoutFor(pids.size());
  // Beyond the limit of file sizes ftruncate sends a signal that would end the program.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < layout.end) {
    return OutOfMemory("ulimit -f", layout.end, EFBIG);
  }
  UniqueFd fd(::memfd_create("hvdray-collective", MFD_CLOEXEC));
  if (!fd.is_valid()) return OutOfMemory("memfd_create", layout.end, errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(layout.end)) != 0) {
    return OutOfMemory("ftruncate", layout.end, errno);
  }
  // Taken now, when lack of it is an error to return: later it would be a SIGBUS.
  if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(layout.rings)) != 0) {
    return OutOfMemory("fallocate", layout.rings, errno);
  }
  for (size_t i = 0; pids.size() == 2 && i < 2; ++i) {
    const size_t place = layout.places + i * ShmSegment::kMostPlaceBytes;
    if (::fallocate(fd.get(), 0, static_cast<off_t>(place), ShmSegment::kPlaceBytes) != 0) {
      return OutOfMemory("fallocate", ShmSegment::kPlaceBytes, errno);
    }
  }
  // The header's other fields begin as zeros, as the file does.
  Header header{};
  header.magic = kMagic;
  std::memcpy(header.token.data(), token.data(), kTokenBytes);
  header.size = static_cast<uint32_t>(pids.size());
  std::string start(sizeof header + pids.size_bytes(), '\0');
  std::memcpy(start.data(), static_cast<const void*>(&header), sizeof header);
  std::memcpy(start.data() + sizeof header, pids.data(), pids.size_bytes());
  HVDRAY_RETURN_IF_ERROR(WriteAll(fd.get(), start));
  return fd;
}

Result<std::unique_ptr<ShmSegment>> ShmSegment::Open(UniqueFd fd, int rank, std::string_view token,
                                                     Duration timeout) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("fstat", errno);
  const auto bytes = static_cast<size_t>(info.st_size);
  const Status other(ErrorCode::kNotSupported,
                     "the shared memory received belongs to another communicator");
  if (bytes < kPage) return other;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return OutOfMemory("mmap", bytes, errno);
  auto* header = static_cast<Header*>(memory);
  const uint32_t size = header->size;
  const bool is_ours = header->magic == kMagic && size >= 1 && size <= 4096 &&
                       LayoutFor(size).end == bytes && rank < static_cast<int>(size) &&
                       SecretsEqual(token, {header->token.data(), kTokenBytes});
  if (!is_ours) {
    (void)::munmap(memory, bytes);
    return other;
  }
  std::unique_ptr<ShmSegment> segment(new ShmSegment(std::move(fd), static_cast<char*>(memory),
                                                     bytes, rank, static_cast<int>(size), timeout));
  HVDRAY_RETURN_IF_ERROR(segment->WatchPeers());
  return segment;
}

ShmSegment::ShmSegment(UniqueFd fd, char* memory, size_t bytes, int rank, int size,
                       Duration timeout)
    : fd_(std::move(fd)),
      memory_(memory),
      bytes_(bytes),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      header_(reinterpret_cast<Header*>(memory)),
      has_pages_(static_cast<size_t>(size) * 2) {
  const Layout layout = LayoutFor(static_cast<size_t>(size));
  bell_ = reinterpret_cast<ShmCounter*>(memory + layout.bell);
  counters_ = reinterpret_cast<ShmCounter*>(memory + layout.counters);
  ring_counters_ = reinterpret_cast<ShmCounter*>(memory + layout.ring_counters);
  slots_ = memory + layout.slots;
  places_ = memory + layout.places;
  rings_ = memory + layout.rings;
  ring_bytes_ = layout.ring_bytes;
  const bool is_alone_on_processor = size <= ProcessorCount();
  spins_ = is_alone_on_processor ? kSpins : kSpinsOfMany;
  yields_ = is_alone_on_processor ? kYields : kYieldsOfMany;
}

ShmSegment::~ShmSegment() {
  if (watcher_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof one);
    watcher_.join();
  }
  header_->left()[rank_].store(1);
  EndCountersOf(rank_);
  (void)::munmap(memory_, bytes_);
}

void ShmSegment::Post(ShmCounter& counter, uint32_t value) {
  // Both sides are sequentially consistent: either the sleeper sees the value, or we see the
  // sleeper.
  counter.value.exchange(value & kStepMask);
  if (counter.sleepers.load() != 0) WakeAll(counter.value);
}

bool ShmSegment::GrowPlaces() {
  if (!has_large_places_) {
    has_large_places_ = ::fallocate(fd_.get(), 0, static_cast<off_t>(places_ - memory_),
                                    2 * static_cast<off_t>(kMostPlaceBytes)) == 0;
  }
  return has_large_places_;
}

Status ShmSegment::WaitAll(Phase phase, uint32_t step) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) HVDRAY_RETURN_IF_ERROR(Wait(peer, phase, step));
  }
  return {};
}

Status ShmSegment::WaitLong(ShmCounter& counter, uint32_t step, int peer) {
  for (int i = 0; i < spins_; ++i) {
    Pause();
    if (HasReached(counter.value.load(std::memory_order_acquire), step)) return {};
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto note_end = [&] {
    if (std::chrono::steady_clock::now() - begin > kLongWait) ++long_waits_;
  };
  for (int i = 0; i < yields_; ++i) {
    ::sched_yield();
    if (!HasReached(counter.value.load(std::memory_order_acquire), step)) continue;
    note_end();
    return {};
  }
  const auto deadline = begin + timeout_;
  counter.sleepers.fetch_add(1);
  Status status;
  uint32_t what = 0;
  for (;;) {
    const uint32_t value = counter.value.load();
    if (HasReached(value, step)) break;
    if ((value & kEnded) != 0 || header_->reason.load() != 0) {
      what = kHasLeft;
      status = CheckAlive();
      if (status.ok()) {
        status = Status(ErrorCode::kAborted, Name(peer) + " has left the communicator");
      }
      break;
    }
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) {
      what = kWasLate;
      status = Status(ErrorCode::kDeadlineExceeded,
                      fmt::format("{} did not come within {}", Name(peer), SecondsText(timeout_)));
      break;
    }
    const timespec wait = Timespec(left);
    (void)Futex(counter.value, FUTEX_WAIT, value, &wait);
  }
  counter.sleepers.fetch_sub(1);
  note_end();
  // Ranks have no common position any more. The others are told whose fault it is.
  if (!status.ok()) AbortFor(what | static_cast<uint32_t>(peer + 1));
  return status;
}

void ShmSegment::Ring(uint32_t step) {
  uint32_t value = bell_->value.load();
  while ((value & kEnded) == 0 && !HasReached(value, step)) {
    if (!bell_->value.compare_exchange_weak(value, step & kStepMask)) continue;
    if (bell_->sleepers.load() != 0) WakeAll(bell_->value);
    return;
  }
}

Result<bool> ShmSegment::AwaitRing(uint32_t step, TimePoint deadline) {
  if (HasReached(bell_->value.load(std::memory_order_acquire), step)) {
    HVDRAY_RETURN_IF_ERROR(CheckAlive());
    return true;
  }
  bell_->sleepers.fetch_add(1);
  Result<bool> rung = true;
  for (;;) {
    const uint32_t value = bell_->value.load();
    if ((value & kEnded) != 0) rung = CheckAlive();
    if (!rung.ok() || HasReached(value, step)) break;
    timespec wait{};
    if (deadline != TimePoint::max()) {
      const Duration left = deadline - std::chrono::steady_clock::now();
      rung = left > Duration::zero();
      if (!*rung) break;
      wait = Timespec(left);
    }
    (void)Futex(bell_->value, FUTEX_WAIT, value, deadline == TimePoint::max() ? nullptr : &wait);
  }
  bell_->sleepers.fetch_sub(1);
  return rung;
}

ShmSegment::RingOfBytes ShmSegment::RingFromTo(int sender, int receiver) const {
  const auto index =
      static_cast<size_t>(sender) * static_cast<size_t>(size_) + static_cast<size_t>(receiver);
  char* data = rings_ + index * ring_bytes_;
  return {&ring_counters_[2 * index], &ring_counters_[2 * index + 1], data,
          static_cast<uint64_t>(data - memory_)};
}

Status ShmSegment::TakePages(int sender, int receiver) {
  const bool is_sender = sender == rank_;
  const auto index = static_cast<size_t>(is_sender ? receiver : size_ + sender);
  if (has_pages_[index]) return {};
  if (::fallocate(fd_.get(), 0, static_cast<off_t>(RingFromTo(sender, receiver).offset),
                  static_cast<off_t>(ring_bytes_)) != 0) {
    Status status = OutOfMemory("fallocate", ring_bytes_, errno);
    Abort();  // or the peer would wait until its timeout
    return status;
  }
  has_pages_[index] = true;
  return {};
}

Status ShmSegment::Send(int peer, const char* data, size_t size) {
  HVDRAY_RETURN_IF_ERROR(TakePages(rank_, peer));
  const RingOfBytes ring = RingFromTo(rank_, peer);
  uint32_t written = ring.written->value.load() & kStepMask;
  while (size > 0) {
    const size_t place = written % ring_bytes_;
    // Half a ring at most, so that both sides have something to do.
    const size_t part = std::min({size, ring_bytes_ - place, ring_bytes_ / 2});
    HVDRAY_RETURN_IF_ERROR(WaitFor(
        *ring.read, (written + static_cast<uint32_t>(part - ring_bytes_)) & kStepMask, peer));
    std::memcpy(ring.data + place, data, part);
    written = (written + static_cast<uint32_t>(part)) & kStepMask;
    Post(*ring.written, written);
    data += part;
    size -= part;
  }
  return {};
}

Status ShmSegment::Receive(int peer, char* data, size_t size) {
  HVDRAY_RETURN_IF_ERROR(TakePages(peer, rank_));
  const RingOfBytes ring = RingFromTo(peer, rank_);
  uint32_t read = ring.read->value.load() & kStepMask;
  while (size > 0) {
    const size_t place = read % ring_bytes_;
    const size_t part = std::min({size, ring_bytes_ - place, ring_bytes_ / 2});
    HVDRAY_RETURN_IF_ERROR(
        WaitFor(*ring.written, (read + static_cast<uint32_t>(part)) & kStepMask, peer));
    std::memcpy(data, ring.data + place, part);
    read = (read + static_cast<uint32_t>(part)) & kStepMask;
    Post(*ring.read, read);
    data += part;
    size -= part;
  }
  return {};
}

Status ShmSegment::WatchPeers() {
  const pid_t self = ::getpid();
  if (header_->pids()[rank_] != self) {
    return {ErrorCode::kNotSupported,
            fmt::format("rank {}: in another process namespace than rank 0", rank_)};
  }
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    const pid_t pid = header_->pids()[peer];
    if (pid == self) continue;  // ranks that are threads, as tests have them
    UniqueFd pidfd = OpenPidFd(pid);
    if (!pidfd.is_valid()) {
      const int error = errno;
      if (error != ESRCH) return ErrnoStatus("pidfd_open", error);
      AbortFor(static_cast<uint32_t>(peer + 1));
      return CheckAlive();
    }
    pidfds_.push_back(std::move(pidfd));
    ranks.push_back(peer);
  }
  if (pidfds_.empty()) return {};
  stop_.Reset(::eventfd(0, EFD_CLOEXEC));
  if (!stop_.is_valid()) return ErrnoStatus("eventfd", errno);
  const HeldSignals held(AllSignals());  // they are for the program's own threads
  watcher_ = std::thread([this, ranks = std::move(ranks)]() mutable {
    std::vector<pollfd> polled;
    for (const UniqueFd& pidfd : pidfds_) polled.push_back({pidfd.get(), POLLIN, 0});
    polled.push_back({stop_.get(), POLLIN, 0});
    for (;;) {
      if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      if (polled.back().revents != 0) return;
      for (size_t i = 0; i + 1 < polled.size(); ++i) {
        if (polled[i].revents == 0) continue;
        polled[i].fd = -1;
        polled[i].revents = 0;
        const int peer = ranks[i];
        if (header_->left()[peer].load() == 0) AbortFor(static_cast<uint32_t>(peer + 1));
      }
    }
  });
  return {};
}

void ShmSegment::End(ShmCounter& counter) {
  // Changes the word, so that who has read it and is about to sleep does not.
  counter.value.fetch_or(kEnded);
  if (counter.sleepers.load() != 0) WakeAll(counter.value);
}

void ShmSegment::EndCountersOf(int rank) {
  for (size_t phase = 0; phase < kPhases; ++phase) {
    End(counters_[static_cast<size_t>(rank) * kPhases + phase]);
  }
  for (int peer = 0; peer < size_; ++peer) {
    End(*RingFromTo(rank, peer).written);
    End(*RingFromTo(peer, rank).read);
  }
}

void ShmSegment::AbortFor(uint32_t reason) {
  uint32_t none = 0;
  (void)header_->reason.compare_exchange_strong(none, reason);
  // Also when another rank has given a reason: it may die before it has woken everybody.
  End(*bell_);
  for (int rank = 0; rank < size_; ++rank) EndCountersOf(rank);
}

void ShmSegment::Abort() { AbortFor(kAbortedBy | static_cast<uint32_t>(rank_ + 1)); }

Status ShmSegment::CheckAlive() const {
  const uint32_t reason = header_->reason.load(std::memory_order_relaxed);
  if (reason == 0) return {};
  const auto rank = static_cast<int>((reason & kRankBits) - 1);
  const char* what = " has died";
  if ((reason & kAbortedBy) != 0) what = " gave up";
  if ((reason & kWasLate) != 0) what = " did not come in time";
  if ((reason & kHasLeft) != 0) what = " has left the communicator";
  return {ErrorCode::kAborted, Name(rank) + what};
}

void ShmSegment::NameRanks(std::vector<int> names, int size) {
  names_ = std::move(names);
  named_size_ = size;
}

std::string ShmSegment::Name(int rank) const {
  if (names_.empty()) return fmt::format("rank {} of {}", rank, size_);
  return fmt::format("rank {} of {}", names_[static_cast<size_t>(rank)], named_size_);
}

}  // namespace hvdray
