// SPDX-License-Identifier: Apache-2.0
// Collectives of ranks on different machines: which bytes go to whom, and when. Small buffers go by
// the fewest steps, large ones by the fewest bytes. docs/collective.md has the costs and sources.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "collective/backends.h"
#include "collective/mesh.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

constexpr size_t kPieceBytes = Mesh::kPieceBytes;
// Of a rank's buffer. Below: few steps of whole buffers.
constexpr size_t kSmallBytes = Mesh::kMessageBytes;
// Of a block at once: larger buffers go in several rounds, which bounds the memory for partial
// sums.
constexpr size_t kMostBlockBytes = size_t{8} << 20;

// Bytes of a buffer: [start, start + size).
struct Bytes {
  size_t start = 0;
  size_t size = 0;
};

std::vector<Bytes> PiecesOf(size_t bytes) {
  std::vector<Bytes> pieces;
  for (size_t start = 0; start < bytes; start += kPieceBytes) {
    pieces.push_back({start, std::min(kPieceBytes, bytes - start)});
  }
  return pieces;
}

Status PutAll(Mesh::Outbound& outbound, const void* data, size_t bytes) {
  for (const Bytes piece : PiecesOf(bytes)) {
    HVDRAY_RETURN_IF_ERROR(outbound.Put(static_cast<const char*>(data) + piece.start, piece.size));
  }
  return {};
}

Status WaitAll(Mesh::Inbound& inbound, size_t bytes) {
  for (size_t i = 0; i < PiecesOf(bytes).size(); ++i) HVDRAY_RETURN_IF_ERROR(inbound.Wait());
  return {};
}

// dst = theirs op mine, in the order of ranks: the result has the same bits wherever it is made.
void Combine(ReduceFunction reduce, const void* lower, const void* upper, void* dst, size_t count) {
  const void* sources[] = {lower, upper};
  reduce(sources, 2, dst, nullptr, count, 1);
}

void CopyOwn(const void* from, void* to, size_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

class NetworkCommunicator : public Communicator {
 public:
  // `members` are ranks of the mesh; this rank's place among them is its rank here.
  NetworkCommunicator(std::shared_ptr<Mesh> mesh, std::vector<int> members, int rank)
      : Communicator(rank, static_cast<int>(members.size())),
        mesh_(std::move(mesh)),
        members_(std::move(members)) {}

  std::string_view backend() const override { return "gloo"; }
  void EndMeeting() override { mesh_->EndMeeting(); }
  void Abort() override { mesh_->Abort(); }
  void UseTable(const AlgorithmTable& table) override { table_ = table; }

 private:
  Status Execute(const Operation& operation) override {
    HVDRAY_RETURN_IF_ERROR(mesh_->CheckAlive());
    Status status = Begin(operation);
    if (status.ok()) return {};
    mesh_->Abort();
    return std::move(status).WithContext(
        fmt::format("{} of {} ranks", Name(operation.kind), size()));
  }

  Status Begin(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    const BufferBytes whole = BytesOf(operation, rank(), size());
    switch (operation.kind) {
      case Collective::kAllReduce:
        if (bytes <= table_.network_doubling) return RecursiveDoubling(operation);
        // Fewer steps than a ring for the same bytes, but each waits for the one before.
        if (size() > 2 && bytes / Ranks() < table_.network_ring) return HalvingDoubling(operation);
        return RingAllReduce(operation);
      case Collective::kReduce:
        return bytes <= kSmallBytes ? TreeReduce(operation) : ChainReduce(operation);
      case Collective::kBroadcast:
        return bytes <= kSmallBytes ? TreeBroadcast(operation) : ChainBroadcast(operation);
      case Collective::kAllGather:
        return operation.recv_counts.empty() && bytes <= kSmallBytes ? BruckAllGather(operation)
                                                                     : RingAllGather(operation);
      case Collective::kReduceScatter:
        return bytes <= kSmallBytes ? DirectReduceScatter(operation) : RingReduceScatter(operation);
      case Collective::kAllToAll:
        return AllToAll(operation);
      case Collective::kGather:
        return Gather(operation);
      case Collective::kScatter:
        return Scatter(operation);
      case Collective::kBarrier:
        return Barrier();
      case Collective::kSend:
        return Exchange(operation.root, operation.send, whole.send, -1, nullptr, 0);
      case Collective::kRecv:
        return Exchange(-1, nullptr, 0, operation.root, operation.recv, whole.recv);
    }
    return {ErrorCode::kInternal, "unknown collective"};
  }

  size_t Ranks() const { return static_cast<size_t>(size()); }
  // Of the mesh.
  int Member(int rank) const { return members_[static_cast<size_t>(rank)]; }
  int Next() const { return Member((rank() + 1) % size()); }
  int Previous() const { return Member((rank() + size() - 1) % size()); }
  int DivisorOf(const Operation& operation) const {
    return operation.op == ReduceOp::kAverage ? size() : 1;
  }

  // Memory for partial sums and copies, kept for the next operation.
  char* Scratch(size_t bytes) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return scratch_.data();
  }

  // Sends to one peer while receiving from another (or the same); -1: none. 0 bytes: nothing.
  Status Exchange(int to, const void* send, size_t send_bytes, int from, void* recv,
                  size_t recv_bytes) {
    std::unique_ptr<Mesh::Inbound> inbound;
    std::unique_ptr<Mesh::Outbound> outbound;
    if (recv_bytes > kSmallBytes) {
      HVDRAY_ASSIGN_OR_RETURN(inbound, mesh_->Expect(Member(from), recv, recv_bytes));
    }
    if (send_bytes > kSmallBytes) {
      HVDRAY_ASSIGN_OR_RETURN(outbound, mesh_->Offer(Member(to), send_bytes));
      HVDRAY_RETURN_IF_ERROR(PutAll(*outbound, send, send_bytes));
    } else if (send_bytes > 0) {
      HVDRAY_RETURN_IF_ERROR(mesh_->Send(Member(to), send, send_bytes));
    }
    if (inbound) {
      HVDRAY_RETURN_IF_ERROR(WaitAll(*inbound, recv_bytes));
    } else if (recv_bytes > 0) {
      HVDRAY_RETURN_IF_ERROR(mesh_->Receive(Member(from), recv, recv_bytes));
    }
    return outbound ? outbound->Flush() : Status();
  }

  // Each rank hears, over some others, of all: after step k of the last 2^(k+1).
  Status Barrier() {
    for (int distance = 1; distance < size(); distance *= 2) {
      HVDRAY_RETURN_IF_ERROR(mesh_->Send(Member((rank() + distance) % size()), nullptr, 0));
      HVDRAY_RETURN_IF_ERROR(
          mesh_->Receive(Member((rank() + size() - distance) % size()), nullptr, 0));
    }
    return {};
  }

  void Divide(const Operation& operation, void* data, size_t count) const {
    if (operation.op != ReduceOp::kAverage || count == 0) return;
    const void* sources[] = {data};
    FindReduce(operation.dtype, operation.op)(sources, 1, data, nullptr, count, size());
  }

  // The largest power of two of ranks take part in halvings and doublings; a rank above it stands
  // behind the one that many below, which takes its input before and gives it the result after.
  int Core() const { return static_cast<int>(std::bit_floor(static_cast<unsigned>(size()))); }

  // In step k all swap their partial sums with the rank whose number differs in bit k.
  Status RecursiveDoubling(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    const int core = Core();
    if (operation.send != operation.recv) std::memcpy(operation.recv, operation.send, bytes);
    char* theirs = Scratch(bytes);
    if (rank() >= core) {
      HVDRAY_RETURN_IF_ERROR(Exchange(rank() - core, operation.recv, bytes, -1, nullptr, 0));
      return Exchange(-1, nullptr, 0, rank() - core, operation.recv, bytes);
    }
    const bool has_rear = rank() + core < size();
    if (has_rear) {
      HVDRAY_RETURN_IF_ERROR(Exchange(-1, nullptr, 0, rank() + core, theirs, bytes));
      Combine(reduce, operation.recv, theirs, operation.recv, operation.count);
    }
    for (int bit = 1; bit < core; bit *= 2) {
      const int peer = rank() ^ bit;
      HVDRAY_RETURN_IF_ERROR(Exchange(peer, operation.recv, bytes, peer, theirs, bytes));
      Combine(reduce, rank() < peer ? operation.recv : theirs,
              rank() < peer ? theirs : operation.recv, operation.recv, operation.count);
    }
    Divide(operation, operation.recv, operation.count);
    return has_rear ? Exchange(rank() + core, operation.recv, bytes, -1, nullptr, 0) : Status();
  }

  // Reduce-scatter by halving the range that a rank answers for, then an all-gather by doubling it.
  Status HalvingDoubling(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const size_t bytes = operation.count * element;
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    const int core = Core();
    auto* recv = static_cast<char*>(operation.recv);
    if (operation.send != operation.recv) std::memcpy(recv, operation.send, bytes);
    char* theirs = Scratch(bytes);
    if (rank() >= core) {
      HVDRAY_RETURN_IF_ERROR(Exchange(rank() - core, recv, bytes, -1, nullptr, 0));
      return Exchange(-1, nullptr, 0, rank() - core, recv, bytes);
    }
    const bool has_rear = rank() + core < size();
    if (has_rear) {
      HVDRAY_RETURN_IF_ERROR(Exchange(-1, nullptr, 0, rank() + core, theirs, bytes));
      Combine(reduce, recv, theirs, recv, operation.count);
    }
    // In elements. What is given away in a halving comes back in the doubling of the same step.
    std::vector<Bytes> kept;
    std::vector<Bytes> given;
    Bytes mine{0, operation.count};
    for (int bit = core / 2; bit >= 1; bit /= 2) {
      const int peer = rank() ^ bit;
      const Bytes low{mine.start, mine.size / 2};
      const Bytes high{mine.start + low.size, mine.size - low.size};
      const bool is_low = rank() < peer;
      kept.push_back(is_low ? low : high);
      given.push_back(is_low ? high : low);
      mine = kept.back();
      const Bytes other = given.back();
      HVDRAY_RETURN_IF_ERROR(Exchange(peer, recv + other.start * element, other.size * element,
                                      peer, theirs, mine.size * element));
      char* own = recv + mine.start * element;
      Combine(reduce, is_low ? own : theirs, is_low ? theirs : own, own, mine.size);
    }
    Divide(operation, recv + mine.start * element, mine.size);
    for (size_t step = kept.size(); step-- > 0;) {
      const int peer = rank() ^ (core >> (step + 1));
      HVDRAY_RETURN_IF_ERROR(
          Exchange(peer, recv + kept[step].start * element, kept[step].size * element, peer,
                   recv + given[step].start * element, given[step].size * element));
    }
    return has_rear ? Exchange(rank() + core, recv, bytes, -1, nullptr, 0) : Status();
  }

  // What goes round a ring in 2 (n - 1) or n - 1 steps: in each a block comes from the previous
  // rank and goes on to the next in the step after it, piece by piece, not waiting for the rest of
  // the block.
  struct Ring {
    size_t steps = 0;
    // Bytes of the block that arrives in a step; the one that leaves in step 0 is `first`.
    std::vector<size_t> sizes;
    // Where it arrives.
    std::vector<char*> places;
    const char* first = nullptr;
    size_t first_size = 0;
    size_t reduced = 0;  // Steps whose blocks are partial sums, into which this rank adds its own.
    // Of each of those: this rank's block, and where the new partial sum goes.
    std::vector<const char*> own;
    std::vector<char*> sums;
  };

  Status RunRing(const Ring& ring, const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    // A partial sum arrives in one of two places in turn, so a block may arrive when the block two
    // before it has left.
    const size_t ahead = ring.reduced > 0 ? 2 : Mesh::kMostExpected;
    std::vector<std::unique_ptr<Mesh::Inbound>> inbounds(ring.steps);
    std::vector<std::unique_ptr<Mesh::Outbound>> outbounds(ring.steps);
    const auto expect = [&](size_t step) -> Status {
      if (step >= ring.steps || ring.sizes[step] == 0) return {};
      HVDRAY_ASSIGN_OR_RETURN(inbounds[step],
                              mesh_->Expect(Previous(), ring.places[step], ring.sizes[step]));
      return {};
    };
    for (size_t step = 0; step < std::min(ahead, ring.steps); ++step) {
      HVDRAY_RETURN_IF_ERROR(expect(step));
    }
    if (ring.first_size > 0) {
      HVDRAY_ASSIGN_OR_RETURN(outbounds[0], mesh_->Offer(Next(), ring.first_size));
      HVDRAY_RETURN_IF_ERROR(PutAll(*outbounds[0], ring.first, ring.first_size));
    }
    for (size_t step = 0; step < ring.steps; ++step) {
      const bool goes_on = step + 1 < ring.steps && ring.sizes[step] > 0;
      if (goes_on) {
        HVDRAY_ASSIGN_OR_RETURN(outbounds[step + 1], mesh_->Offer(Next(), ring.sizes[step]));
      }
      for (const Bytes piece : PiecesOf(ring.sizes[step])) {
        HVDRAY_RETURN_IF_ERROR(inbounds[step]->Wait());
        const char* ready = ring.places[step] + piece.start;
        if (step < ring.reduced) {
          const void* sources[] = {ready, ring.own[step] + piece.start};
          char* sum = ring.sums[step] + piece.start;
          const bool is_whole = step + 1 == ring.reduced;
          reduce(sources, 2, sum, nullptr, piece.size / element,
                 is_whole ? DivisorOf(operation) : 1);
          ready = sum;
        }
        if (goes_on) HVDRAY_RETURN_IF_ERROR(outbounds[step + 1]->Put(ready, piece.size));
      }
      inbounds[step].reset();
      if (outbounds[step]) HVDRAY_RETURN_IF_ERROR(outbounds[step]->Flush());
      outbounds[step].reset();
      // Of the partial sums that are sent from where they arrived.
      const size_t next = step + ahead;
      if (next < ring.steps && next < ring.reduced && outbounds[step + 1] &&
          ring.sums[step] == ring.places[step]) {
        HVDRAY_RETURN_IF_ERROR(outbounds[step + 1]->Flush());
      }
      HVDRAY_RETURN_IF_ERROR(expect(next));
    }
    return {};
  }

  // Blocks of whole elements, in bytes.
  std::vector<Bytes> Split(size_t count, size_t element) const {
    std::vector<Bytes> blocks(Ranks());
    for (size_t i = 0; i < Ranks(); ++i) {
      const size_t start = count * i / Ranks();
      blocks[i] = {start * element, (count * (i + 1) / Ranks() - start) * element};
    }
    return blocks;
  }

  Status RingAllReduce(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const size_t most = kMostBlockBytes / element * Ranks();
    for (size_t start = 0; start < operation.count; start += most) {
      const size_t count = std::min(most, operation.count - start);
      const std::vector<Bytes> blocks = Split(count, element);
      const auto* send = static_cast<const char*>(operation.send) + start * element;
      auto* recv = static_cast<char*>(operation.recv) + start * element;
      const size_t room = blocks.back().size;  // the largest
      char* partial = Scratch(2 * room);
      const auto me = static_cast<size_t>(rank());
      Ring ring;
      ring.steps = 2 * (Ranks() - 1);
      ring.reduced = Ranks() - 1;
      ring.first = send + blocks[me].start;
      ring.first_size = blocks[me].size;
      for (size_t step = 0; step < ring.steps; ++step) {
        const Bytes block = blocks[(me + 2 * Ranks() - 1 - step) % Ranks()];
        const bool is_partial = step < ring.reduced;
        ring.sizes.push_back(block.size);
        ring.places.push_back(is_partial ? partial + step % 2 * room : recv + block.start);
        if (!is_partial) continue;
        ring.own.push_back(send + block.start);
        ring.sums.push_back(recv + block.start);
      }
      HVDRAY_RETURN_IF_ERROR(RunRing(ring, operation));
    }
    return {};
  }

  Status RingReduceScatter(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const size_t most = kMostBlockBytes / element;
    const auto me = static_cast<size_t>(rank());
    for (size_t start = 0; start < operation.count; start += most) {
      const size_t bytes = std::min(most, operation.count - start) * element;
      const auto block = [&](size_t owner) {
        return static_cast<const char*>(operation.send) +
               (owner * operation.count + start) * element;
      };
      char* partial = Scratch(2 * bytes);
      Ring ring;
      ring.steps = ring.reduced = Ranks() - 1;
      ring.first = block((me + Ranks() - 1) % Ranks());
      ring.first_size = bytes;
      for (size_t step = 0; step < ring.steps; ++step) {
        ring.sizes.push_back(bytes);
        ring.places.push_back(partial + step % 2 * bytes);
        ring.own.push_back(block((me + 2 * Ranks() - 2 - step) % Ranks()));
        ring.sums.push_back(step + 1 == ring.steps
                                ? static_cast<char*>(operation.recv) + start * element
                                : ring.places[step]);
      }
      HVDRAY_RETURN_IF_ERROR(RunRing(ring, operation));
    }
    return {};
  }

  Status RingAllGather(const Operation& operation) {
    const std::vector<Bytes> blocks = RecvBlocks(operation);
    const auto me = static_cast<size_t>(rank());
    auto* recv = static_cast<char*>(operation.recv);
    CopyOwn(operation.send, recv + blocks[me].start, blocks[me].size);
    Ring ring;
    ring.steps = Ranks() - 1;
    ring.first = recv + blocks[me].start;
    ring.first_size = blocks[me].size;
    for (size_t step = 0; step < ring.steps; ++step) {
      const Bytes block = blocks[(me + 2 * Ranks() - 1 - step) % Ranks()];
      ring.sizes.push_back(block.size);
      ring.places.push_back(recv + block.start);
    }
    return RunRing(ring, operation);
  }

  // After step k each rank has the blocks of the 2^(k+1) ranks from its own on, which then go to
  // the rank that many below.
  Status BruckAllGather(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    char* rotated = Scratch(bytes * Ranks());
    std::memcpy(rotated, operation.send, bytes);
    for (size_t have = 1; have < Ranks(); have *= 2) {
      const size_t more = std::min(have, Ranks() - have) * bytes;
      const auto distance = static_cast<int>(have);
      HVDRAY_RETURN_IF_ERROR(Exchange((rank() + size() - distance) % size(), rotated, more,
                                      (rank() + distance) % size(), rotated + have * bytes, more));
    }
    auto* recv = static_cast<char*>(operation.recv);
    const auto me = static_cast<size_t>(rank());
    std::memcpy(recv + me * bytes, rotated, (Ranks() - me) * bytes);
    std::memcpy(recv, rotated + (Ranks() - me) * bytes, me * bytes);
    return {};
  }

  // The root is 0; each rank has its bits' tree below it.
  int FromRoot(int root) const { return (rank() + size() - root) % size(); }
  int ToRank(int from_root, int root) const { return (from_root + root) % size(); }

  Status TreeBroadcast(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    const int me = FromRoot(operation.root);
    int bit = 1;
    for (; bit < size(); bit *= 2) {
      if ((me & bit) == 0) continue;
      HVDRAY_RETURN_IF_ERROR(
          mesh_->Receive(Member(ToRank(me - bit, operation.root)), operation.recv, bytes));
      break;
    }
    for (bit /= 2; bit >= 1; bit /= 2) {
      if (me + bit >= size()) continue;
      HVDRAY_RETURN_IF_ERROR(
          mesh_->Send(Member(ToRank(me + bit, operation.root)), operation.recv, bytes));
    }
    return {};
  }

  // The root sends to the rank after it, which passes each piece on, and so on.
  Status ChainBroadcast(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    const int me = FromRoot(operation.root);
    const bool goes_on = me + 1 < size();
    auto* data = static_cast<char*>(operation.recv);
    std::unique_ptr<Mesh::Inbound> inbound;
    std::unique_ptr<Mesh::Outbound> outbound;
    if (me > 0) {
      HVDRAY_ASSIGN_OR_RETURN(inbound, mesh_->Expect(Previous(), data, bytes));
    }
    if (goes_on) {
      HVDRAY_ASSIGN_OR_RETURN(outbound, mesh_->Offer(Next(), bytes));
    }
    for (const Bytes piece : PiecesOf(bytes)) {
      if (inbound) HVDRAY_RETURN_IF_ERROR(inbound->Wait());
      if (outbound) HVDRAY_RETURN_IF_ERROR(outbound->Put(data + piece.start, piece.size));
    }
    return goes_on ? outbound->Flush() : Status();
  }

  Status TreeReduce(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    const int me = FromRoot(operation.root);
    char* sum = Scratch(2 * bytes);
    char* theirs = sum + bytes;
    std::memcpy(sum, operation.send, bytes);
    for (int bit = 1; bit < size(); bit *= 2) {
      if ((me & bit) != 0) {
        return mesh_->Send(Member(ToRank(me - bit, operation.root)), sum, bytes);
      }
      if (me + bit >= size()) continue;
      HVDRAY_RETURN_IF_ERROR(
          mesh_->Receive(Member(ToRank(me + bit, operation.root)), theirs, bytes));
      Combine(reduce, sum, theirs, sum, operation.count);
    }
    std::memcpy(operation.recv, sum, bytes);
    Divide(operation, operation.recv, operation.count);
    return {};
  }

  // The rank before the root begins; each adds its own to what the one before it sends, piece by
  // piece, until the root.
  Status ChainReduce(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    const bool is_root = rank() == operation.root;
    const bool is_first = FromRoot(operation.root) == 1;
    const size_t most = kMostBlockBytes / element;
    for (size_t start = 0; start < operation.count; start += most) {
      const size_t bytes = std::min(most, operation.count - start) * element;
      const char* own = static_cast<const char*>(operation.send) + start * element;
      char* partial = is_first ? nullptr : Scratch(bytes);
      char* sum = is_root ? static_cast<char*>(operation.recv) + start * element : partial;
      std::unique_ptr<Mesh::Inbound> inbound;
      std::unique_ptr<Mesh::Outbound> outbound;
      if (!is_first) {
        HVDRAY_ASSIGN_OR_RETURN(inbound, mesh_->Expect(Previous(), partial, bytes));
      }
      if (!is_root) {
        HVDRAY_ASSIGN_OR_RETURN(outbound, mesh_->Offer(Next(), bytes));
      }
      for (const Bytes piece : PiecesOf(bytes)) {
        const char* ready = own + piece.start;
        if (inbound) {
          HVDRAY_RETURN_IF_ERROR(inbound->Wait());
          const void* sources[] = {partial + piece.start, ready};
          reduce(sources, 2, sum + piece.start, nullptr, piece.size / element,
                 is_root ? DivisorOf(operation) : 1);
          ready = sum + piece.start;
        }
        if (outbound) HVDRAY_RETURN_IF_ERROR(outbound->Put(ready, piece.size));
      }
      if (outbound) HVDRAY_RETURN_IF_ERROR(outbound->Flush());
    }
    return {};
  }

  // Everybody sends each piece to its owner, who adds them up in the order of ranks.
  Status DirectReduceScatter(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    const auto* send = static_cast<const char*>(operation.send);
    const auto me = static_cast<size_t>(rank());
    char* theirs = Scratch(bytes * Ranks());
    std::vector<const void*> sources(Ranks());
    for (size_t i = 0; i < Ranks(); ++i) sources[i] = theirs + i * bytes;
    sources[me] = send + me * bytes;
    for (size_t step = 1; step < Ranks(); ++step) {
      const size_t to = (me + step) % Ranks();
      const size_t from = (me + Ranks() - step) % Ranks();
      HVDRAY_RETURN_IF_ERROR(Exchange(static_cast<int>(to), send + to * bytes, bytes,
                                      static_cast<int>(from), theirs + from * bytes, bytes));
    }
    FindReduce(operation.dtype, operation.op)(sources.data(), Ranks(), operation.recv, nullptr,
                                              operation.count, DivisorOf(operation));
    return {};
  }

  std::vector<Bytes> Blocks(std::span<const size_t> counts, const Operation& operation) const {
    std::vector<Bytes> blocks(Ranks());
    size_t start = 0;
    for (size_t i = 0; i < Ranks(); ++i) {
      blocks[i] = {start, (counts.empty() ? operation.count : counts[i]) * SizeOf(operation.dtype)};
      start += blocks[i].size;
    }
    return blocks;
  }
  std::vector<Bytes> RecvBlocks(const Operation& operation) const {
    return Blocks(operation.recv_counts, operation);
  }

  Status AllToAll(const Operation& operation) {
    const std::vector<Bytes> out = Blocks(operation.send_counts, operation);
    const std::vector<Bytes> in = RecvBlocks(operation);
    const auto* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    // In place, what is still to be sent would be overwritten.
    if (send == recv) {
      const size_t whole = out.back().start + out.back().size;
      char* copy = Scratch(whole);
      if (whole > 0) std::memcpy(copy, send, whole);
      send = copy;
    }
    const auto me = static_cast<size_t>(rank());
    if (out[me].size == in[me].size)
      CopyOwn(send + out[me].start, recv + in[me].start, in[me].size);
    for (size_t step = 1; step < Ranks(); ++step) {
      const size_t to = (me + step) % Ranks();
      const size_t from = (me + Ranks() - step) % Ranks();
      HVDRAY_RETURN_IF_ERROR(Exchange(static_cast<int>(to), send + out[to].start, out[to].size,
                                      static_cast<int>(from), recv + in[from].start,
                                      in[from].size));
    }
    return {};
  }

  // The root gets all blocks at the same time, a few peers' at once.
  Status Gather(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    if (rank() != operation.root) {
      return Exchange(operation.root, operation.send, bytes, -1, nullptr, 0);
    }
    auto* recv = static_cast<char*>(operation.recv);
    CopyOwn(operation.send, recv + static_cast<size_t>(rank()) * bytes, bytes);
    std::vector<std::unique_ptr<Mesh::Inbound>> inbounds(Ranks());
    for (int peer = 0; peer < size() && bytes > kSmallBytes; ++peer) {
      if (peer == rank()) continue;
      const auto index = static_cast<size_t>(peer);
      HVDRAY_ASSIGN_OR_RETURN(inbounds[index],
                              mesh_->Expect(Member(peer), recv + index * bytes, bytes));
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto index = static_cast<size_t>(peer);
      HVDRAY_RETURN_IF_ERROR(inbounds[index]
                                 ? WaitAll(*inbounds[index], bytes)
                                 : mesh_->Receive(Member(peer), recv + index * bytes, bytes));
    }
    return {};
  }

  Status Scatter(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    if (bytes == 0) return {};
    if (rank() != operation.root) {
      return Exchange(-1, nullptr, 0, operation.root, operation.recv, bytes);
    }
    const auto* send = static_cast<const char*>(operation.send);
    CopyOwn(send + static_cast<size_t>(rank()) * bytes, operation.recv, bytes);
    std::vector<std::unique_ptr<Mesh::Outbound>> outbounds;
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank() + i) % size();
      const char* block = send + static_cast<size_t>(peer) * bytes;
      if (bytes <= kSmallBytes) {
        HVDRAY_RETURN_IF_ERROR(mesh_->Send(Member(peer), block, bytes));
        continue;
      }
      HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<Mesh::Outbound> outbound,
                              mesh_->Offer(Member(peer), bytes));
      HVDRAY_RETURN_IF_ERROR(PutAll(*outbound, block, bytes));
      outbounds.push_back(std::move(outbound));
    }
    for (const auto& outbound : outbounds) HVDRAY_RETURN_IF_ERROR(outbound->Flush());
    return {};
  }

  std::shared_ptr<Mesh> mesh_;
  std::vector<int> members_;
  AlgorithmTable table_;
  std::vector<char> scratch_;
};

}  // namespace

std::unique_ptr<Communicator> MakeNetworkCommunicator(std::shared_ptr<Mesh> mesh,
                                                      std::vector<int> members) {
  const auto place = std::find(members.begin(), members.end(), mesh->rank());
  const auto rank = static_cast<int>(place - members.begin());
  return std::make_unique<NetworkCommunicator>(std::move(mesh), std::move(members), rank);
}

}  // namespace hvdray
