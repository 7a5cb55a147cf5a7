// SPDX-License-Identifier: Apache-2.0
// Collectives of ranks on several machines, several on each: what can be done inside a machine goes
// through its memory, so that the network carries each byte once. Made of a communicator of each
// machine and of communicators of some ranks over one mesh.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "collective/backends.h"
#include "collective/mesh.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

class HierarchicalCommunicator : public Communicator {
 public:
  HierarchicalCommunicator(std::shared_ptr<Mesh> mesh, std::unique_ptr<Communicator> local,
                           std::vector<std::vector<int>> hosts)
      : Communicator(mesh->rank(), mesh->size()),
        mesh_(std::move(mesh)),
        local_(std::move(local)),
        hosts_(std::move(hosts)),
        host_of_(static_cast<size_t>(size())),
        place_of_(static_cast<size_t>(size())) {
    std::vector<int> all(static_cast<size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    flat_ = MakeNetworkCommunicator(mesh_, all);
    std::vector<int> in_order;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      for (size_t place = 0; place < hosts_[host].size(); ++place) {
        host_of_[static_cast<size_t>(hosts_[host][place])] = host;
        place_of_[static_cast<size_t>(hosts_[host][place])] = static_cast<int>(place);
      }
      is_even_ = is_even_ && hosts_[host].size() == hosts_[0].size();
      in_order.insert(in_order.end(), hosts_[host].begin(), hosts_[host].end());
    }
    is_in_order_ = in_order == all;
    const int place = place_of_[static_cast<size_t>(rank())];
    if (place == 0) leaders_ = CommunicatorOf([](const std::vector<int>& host) { return host[0]; });
    if (is_even_) {
      slices_ = CommunicatorOf(
          [&](const std::vector<int>& host) { return host[static_cast<size_t>(place)]; });
    }
    // A rank that waits for one of its machine is told, too, when another machine's dies.
    mesh_->OnEnd([local = local_] { local->Abort(); });
  }

  ~HierarchicalCommunicator() override { mesh_->OnEnd({}); }

  std::string_view backend() const override { return "hierarchical"; }
  int network_size() const override { return static_cast<int>(hosts_.size()); }

  void EndMeeting() override {
    local_->EndMeeting();
    mesh_->EndMeeting();
  }

  void Abort() override {
    local_->Abort();
    mesh_->Abort();
  }

  void UseTable(const AlgorithmTable& table) override {
    table_ = table;
    for (Communicator* part : {local_.get(), flat_.get(), leaders_.get(), slices_.get()}) {
      if (part != nullptr) part->UseTable(table);
    }
  }

 private:
  Status Execute(const Operation& operation) override {
    Status status = Begin(operation);
    if (status.ok()) return {};
    // One of this machine may have given up since a rank elsewhere has died: the mesh knows soon.
    if (status.code() == ErrorCode::kAborted) mesh_->AwaitEnd(Mesh::kNewsTravels);
    mesh_->Abort(status.message());
    local_->Abort();
    // Numbers of ranks in errors of a part are that part's.
    const Status known = mesh_->CheckAlive();
    if (status.code() != ErrorCode::kAborted || known.message() == Mesh::kEnded) return status;
    return Status(known).WithContext(Name(operation.kind));
  }

  Status Begin(const Operation& operation) {
    switch (operation.kind) {
      case Collective::kAllReduce:
        return AllReduceOf(operation);
      case Collective::kReduce:
        return ReduceOf(operation);
      case Collective::kBroadcast:
        return BroadcastOf(operation);
      case Collective::kAllGather:
        return is_in_order_ ? AllGatherOf(operation) : flat_->Run(operation);
      case Collective::kReduceScatter:
        return is_in_order_ && is_even_ ? ReduceScatterOf(operation) : flat_->Run(operation);
      case Collective::kBarrier:
        HVDRAY_RETURN_IF_ERROR(local_->Barrier());
        if (leaders_) HVDRAY_RETURN_IF_ERROR(leaders_->Barrier());
        return local_->Barrier();
      case Collective::kSend:
      case Collective::kRecv: {
        if (HostOf(operation.root) != HostOf(rank())) return flat_->Run(operation);
        Operation here = operation;
        here.root = place_of_[static_cast<size_t>(operation.root)];
        return local_->Run(here);
      }
      case Collective::kAllToAll:
      case Collective::kGather:
      case Collective::kScatter:
        return flat_->Run(operation);
    }
    return {ErrorCode::kInternal, "unknown collective"};
  }

  size_t HostOf(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  const std::vector<int>& Here() const { return hosts_[HostOf(rank())]; }

  // Of one rank of each machine, this one among them.
  template <typename Choose>
  std::unique_ptr<Communicator> CommunicatorOf(const Choose& choose) const {
    std::vector<int> members;
    members.reserve(hosts_.size());
    for (const std::vector<int>& host : hosts_) members.push_back(choose(host));
    if (members.size() == 1) return MakeSingleCommunicator();
    return MakeNetworkCommunicator(mesh_, std::move(members));
  }

  // The rank that speaks for a machine when `root` speaks for its own.
  int Speaker(const std::vector<int>& host, int root) const {
    return HostOf(host[0]) == HostOf(root) ? root : host[0];
  }

  // Of these; nullptr unless this rank is one of them.
  Communicator* SpeakersFor(int root) {
    if (Speaker(Here(), root) != rank()) return nullptr;
    if (root == hosts_[HostOf(root)][0]) return leaders_.get();
    std::unique_ptr<Communicator>& speakers = speakers_[root];
    if (!speakers) {
      speakers = CommunicatorOf([&](const auto& host) { return Speaker(host, root); });
    }
    return speakers.get();
  }

  char* Scratch(size_t bytes) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return scratch_.data();
  }

  // Sums come from parts that know only their own number of ranks.
  static ReduceOp Partial(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }

  void Divide(const Operation& operation, void* data, size_t count) const {
    if (operation.op != ReduceOp::kAverage || count == 0) return;
    const void* sources[] = {data};
    FindReduce(operation.dtype, operation.op)(sources, 1, data, nullptr, count, size());
  }

  Status AllReduceOf(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    // Slices use more connections and processors, but have one step more.
    if (is_even_ && Here().size() > 1 && bytes > table_.slices) return AllReduceInSlices(operation);
    const ReduceOp op = Partial(operation.op);
    HVDRAY_RETURN_IF_ERROR(
        local_->Reduce(operation.send, operation.recv, operation.count, operation.dtype, op, 0));
    if (leaders_) {
      HVDRAY_RETURN_IF_ERROR(leaders_->AllReduce(operation.recv, operation.recv, operation.count,
                                                 operation.dtype, op));
      Divide(operation, operation.recv, operation.count);
    }
    return local_->Broadcast(operation.recv, operation.count, operation.dtype, 0);
  }

  // Each rank of a machine gets the sum of a slice there, all-reduces it with those that have the
  // same slice elsewhere, and shares the result. What is left over goes with the first slice.
  Status AllReduceInSlices(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const ReduceOp op = Partial(operation.op);
    const size_t ranks = Here().size();
    const size_t slice = operation.count / ranks;
    const size_t rest = operation.count % ranks;
    const bool is_first = local_->rank() == 0;
    const size_t mine = slice + (is_first ? rest : 0);
    char* sum = Scratch((slice + rest) * element);
    const char* tail = static_cast<const char*>(operation.send) + slice * ranks * element;
    HVDRAY_RETURN_IF_ERROR(local_->ReduceScatter(operation.send, sum, slice, operation.dtype, op));
    HVDRAY_RETURN_IF_ERROR(
        local_->Reduce(tail, sum + slice * element, rest, operation.dtype, op, 0));
    HVDRAY_RETURN_IF_ERROR(slices_->AllReduce(sum, sum, mine, operation.dtype, op));
    Divide(operation, sum, mine);
    auto* recv = static_cast<char*>(operation.recv);
    HVDRAY_RETURN_IF_ERROR(local_->AllGather(sum, recv, slice, operation.dtype));
    char* end = recv + slice * ranks * element;
    if (is_first && rest > 0) std::memcpy(end, sum + slice * element, rest * element);
    return local_->Broadcast(end, rest, operation.dtype, 0);
  }

  Status ReduceOf(const Operation& operation) {
    const ReduceOp op = Partial(operation.op);
    const int speaker = Speaker(Here(), operation.root);
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    void* sum = operation.recv;
    if (rank() != operation.root) sum = speaker == rank() ? Scratch(bytes) : nullptr;
    HVDRAY_RETURN_IF_ERROR(local_->Reduce(operation.send, sum, operation.count, operation.dtype, op,
                                          place_of_[static_cast<size_t>(speaker)]));
    Communicator* speakers = SpeakersFor(operation.root);
    if (speakers == nullptr) return {};
    const auto root = static_cast<int>(HostOf(operation.root));
    HVDRAY_RETURN_IF_ERROR(speakers->Reduce(sum, sum, operation.count, operation.dtype, op, root));
    if (rank() == operation.root) Divide(operation, sum, operation.count);
    return {};
  }

  Status BroadcastOf(const Operation& operation) {
    if (Communicator* speakers = SpeakersFor(operation.root); speakers != nullptr) {
      HVDRAY_RETURN_IF_ERROR(speakers->Broadcast(operation.recv, operation.count, operation.dtype,
                                                 static_cast<int>(HostOf(operation.root))));
    }
    const int speaker = Speaker(Here(), operation.root);
    return local_->Broadcast(operation.recv, operation.count, operation.dtype,
                             place_of_[static_cast<size_t>(speaker)]);
  }

  // The ranks of a machine gather what is theirs, its leader gets what is the others', and shares
  // it. Machines have ranks that follow each other.
  Status AllGatherOf(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    std::vector<size_t> counts(static_cast<size_t>(size()), operation.count);
    if (!operation.recv_counts.empty()) {
      counts.assign(operation.recv_counts.begin(), operation.recv_counts.end());
    }
    std::vector<size_t> of_hosts(hosts_.size());
    std::vector<size_t> places(hosts_.size());
    size_t whole = 0;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      places[host] = whole;
      for (const int peer : hosts_[host]) of_hosts[host] += counts[static_cast<size_t>(peer)];
      whole += of_hosts[host];
    }
    const size_t here = HostOf(rank());
    auto* recv = static_cast<char*>(operation.recv);
    char* own = recv + places[here] * element;
    const auto counts_here =
        std::span(counts).subspan(static_cast<size_t>(Here()[0]), Here().size());
    HVDRAY_RETURN_IF_ERROR(local_->AllGatherV(operation.send, own, counts_here, operation.dtype));
    if (leaders_)
      HVDRAY_RETURN_IF_ERROR(leaders_->AllGatherV(own, recv, of_hosts, operation.dtype));
    const size_t before = places[here];
    const size_t behind = before + of_hosts[here];
    HVDRAY_RETURN_IF_ERROR(local_->Broadcast(recv, before, operation.dtype, 0));
    return local_->Broadcast(recv + behind * element, whole - behind, operation.dtype, 0);
  }

  Status ReduceScatterOf(const Operation& operation) {
    const ReduceOp op = Partial(operation.op);
    const size_t whole = operation.count * static_cast<size_t>(size());
    const size_t here = operation.count * Here().size();
    const size_t element = SizeOf(operation.dtype);
    char* sum = leaders_ ? Scratch((whole + here) * element) : nullptr;
    char* part = leaders_ ? sum + whole * element : nullptr;
    HVDRAY_RETURN_IF_ERROR(local_->Reduce(operation.send, sum, whole, operation.dtype, op, 0));
    if (leaders_) {
      HVDRAY_RETURN_IF_ERROR(leaders_->ReduceScatter(sum, part, here, operation.dtype, op));
      Divide(operation, part, here);
    }
    return local_->Scatter(part, operation.recv, operation.count, operation.dtype, 0);
  }

  std::shared_ptr<Mesh> mesh_;
  std::shared_ptr<Communicator> local_;
  std::vector<std::vector<int>> hosts_;
  std::vector<size_t> host_of_;  // of each rank
  std::vector<int> place_of_;    // of each rank on its machine
  AlgorithmTable table_;
  bool is_even_ = true;       // All machines have the same number of ranks.
  bool is_in_order_ = false;  // Each machine's ranks follow each other.
  std::unique_ptr<Communicator> flat_;
  std::unique_ptr<Communicator> leaders_;  // Of the first ranks of machines; nullptr on others.
  std::unique_ptr<Communicator> slices_;   // Of the ranks with this one's place elsewhere.
  std::map<int, std::unique_ptr<Communicator>> speakers_;  // by root
  std::vector<char> scratch_;
};

}  // namespace

std::unique_ptr<Communicator> MakeHierarchicalCommunicator(std::shared_ptr<Mesh> mesh,
                                                           std::unique_ptr<Communicator> local,
                                                           std::vector<std::vector<int>> hosts) {
  return std::make_unique<HierarchicalCommunicator>(std::move(mesh), std::move(local),
                                                    std::move(hosts));
}

}  // namespace hvdray
