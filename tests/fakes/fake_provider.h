// SPDX-License-Identifier: Apache-2.0
// A cloud in memory: machines are rows, and calls fail when a test says so. Knows no time: machines
// run from the second List() on, and have ended at the second one after Remove().
#ifndef HVDRAY_TESTS_FAKES_FAKE_PROVIDER_H_
#define HVDRAY_TESTS_FAKES_FAKE_PROVIDER_H_

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cloud/provider.h"

namespace hvdray {

/// Threads: any, as a Provider.
class FakeProvider final : public Provider {
 public:
  FakeProvider(std::string cluster, std::vector<PreparedNode> nodes)
      : cluster_(std::move(cluster)), prepared_(std::move(nodes)) {}

  // What a test sets.

  /// The next calls of `call` ("List", "Create", …) fail with these, one each.
  void FailNext(const std::string& call, std::deque<Status> faults) {
    const std::lock_guard lock(mutex_);
    faults_[call] = std::move(faults);
  }
  /// At most `count` live spot machines of a type; the others are told as kNoCapacity.
  void SetCapacity(const std::string& node_type, int count) {
    const std::lock_guard lock(mutex_);
    capacity_[node_type] = count;
  }
  /// Addresses that machines get in the order of their creation; then 10.9.x.y.
  void SetAddresses(std::vector<std::string> addresses) {
    const std::lock_guard lock(mutex_);
    addresses_ = {addresses.begin(), addresses.end()};
  }
  /// Machines stop instead of ending, as with cache_stopped_nodes.
  void KeepStopped(bool keeps = true) {
    const std::lock_guard lock(mutex_);
    keeps_stopped_ = keeps;
  }
  /// So many lists still show started machines as stopped.
  void LagLists(int count) {
    const std::lock_guard lock(mutex_);
    lagging_lists_ = count;
  }
  /// Create() makes so many fewer than asked, and does not say why.
  void FallShortBy(int count) {
    const std::lock_guard lock(mutex_);
    shortfall_ = count;
  }
  /// The cloud takes a machine away, as it does with spot ones.
  void Interrupt(const std::string& id) {
    const std::lock_guard lock(mutex_);
    nodes_.erase(id);
  }

  // What a test looks at.

  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  /// All machines ever made, to see that none was made twice.
  int created() const {
    const std::lock_guard lock(mutex_);
    return created_;
  }
  bool has_resources() const {
    const std::lock_guard lock(mutex_);
    return has_resources_;
  }

  Result<std::vector<CloudNode>> List() override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("List"));
    std::vector<CloudNode> nodes;
    const bool is_lagging = lagging_lists_ > 0;
    if (is_lagging) --lagging_lists_;
    for (auto it = nodes_.begin(); it != nodes_.end();) {
      nodes.push_back(it->second);
      if (is_lagging && RequestOf(it->second) == kStarted)
        nodes.back().state = CloudState::kStopped;
      it = Advance(it);
    }
    std::ranges::stable_sort(nodes, {}, &CloudNode::kind);
    return nodes;
  }

  Result<ProviderPlan> Plan() override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("Plan"));
    return ProviderPlan{.steps = {Step()}};
  }

  Result<PreparedCluster> Prepare(
      const std::function<void(const ProviderStep&)>& on_step) override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("Prepare"));
    PreparedCluster prepared{.steps = {Step()}, .nodes = prepared_};
    if (!std::exchange(has_resources_, true) && on_step) on_step(prepared.steps[0]);
    return prepared;
  }

  Result<CreateOutcome> Create(const CreateRequest& request) override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("Create"));
    CreateOutcome outcome;
    for (const auto& [id, node] : nodes_) {
      const bool is_earlier =
          RequestOf(node) == request.request_id && node.launch_hash == request.node.launch_hash;
      if (is_earlier && node.is_live()) outcome.nodes.push_back(node);
    }
    while (static_cast<int>(outcome.nodes.size()) + shortfall_ < request.count) {
      if (!request.may_be_on_demand && !HasRoom(request.node.node_type)) {
        outcome.shortfall =
            Status(ErrorCode::kNoCapacity, "no more machines of " + request.node.node_type);
        break;
      }
      outcome.nodes.push_back(Make(request));
    }
    return outcome;
  }

  Result<CreateOutcome> StartStopped(const CreateRequest& request) override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("StartStopped"));
    CreateOutcome outcome;
    for (auto& [id, node] : nodes_) {
      const bool is_wanted = node.state == CloudState::kStopped && node.kind == request.node.kind &&
                             node.node_type == request.node.node_type &&
                             node.launch_hash == request.node.launch_hash;
      if (!is_wanted || static_cast<int>(outcome.nodes.size()) == request.count) continue;
      node.state = CloudState::kPending;
      node.status = kNewNodeStatus;
      for (const auto& [key, value] : request.tags) node.tags[key] = value;
      node.tags[std::string(kTagRequest)] = kStarted;
      outcome.nodes.push_back(node);
    }
    return outcome;
  }

  Status SetTags(const std::vector<std::string>& ids, const ProviderTags& tags) override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("SetTags"));
    for (const std::string& id : ids) {
      const auto found = nodes_.find(id);
      if (found == nodes_.end()) return {ErrorCode::kCloudFailed, "no machine " + id};
      for (const auto& [key, value] : tags) {
        found->second.tags[key] = value;
        if (key == kTagStatus) found->second.status = value;
      }
    }
    return {};
  }

  Result<std::vector<RemovedNode>> Remove(const std::vector<std::string>& ids,
                                          RemoveMode mode) override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("Remove"));
    std::vector<RemovedNode> removed;
    for (const std::string& id : ids) {
      const auto found = nodes_.find(id);
      const bool stops = keeps_stopped_ && mode == RemoveMode::kAsConfigured &&
                         (found == nodes_.end() || !found->second.is_spot);
      removed.push_back({.id = id, .is_stopped = stops});
      if (found == nodes_.end()) continue;
      if (stops && found->second.state == CloudState::kStopped) continue;
      found->second.state = stops ? CloudState::kStopping : CloudState::kEnding;
    }
    return removed;
  }

  Result<std::vector<ProviderStep>> Purge() override {
    const std::lock_guard lock(mutex_);
    HVDRAY_RETURN_IF_ERROR(Enter("Purge"));
    std::vector<ProviderStep> steps;
    if (!has_resources_) return steps;
    steps.push_back({.what = "key pair", .name = "key-of-" + cluster_});
    if (nodes_.empty()) {
      steps[0].action = ProviderStep::Action::kDelete;
      has_resources_ = false;
    } else {
      steps[0].detail = "used by " + nodes_.begin()->first;
    }
    return steps;
  }

  void Cancel() override {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
  }

 private:
  static constexpr std::string_view kStarted = "started";  // as AwsProvider has it

  using Nodes = std::map<std::string, CloudNode>;

  static std::string_view RequestOf(const CloudNode& node) {
    const auto tag = node.tags.find(std::string(kTagRequest));
    return tag == node.tags.end() ? std::string_view() : tag->second;
  }

  Status Enter(const std::string& call) {
    calls_.push_back(call);
    if (is_cancelled_) return {ErrorCode::kCancelled, "cancelled"};
    std::deque<Status>& faults = faults_[call];
    if (faults.empty()) return {};
    Status fault = std::move(faults.front());
    faults.pop_front();
    return fault;
  }

  ProviderStep Step() const {
    return {.action = has_resources_ ? ProviderStep::Action::kKeep : ProviderStep::Action::kCreate,
            .what = "key pair",
            .name = "key-of-" + cluster_};
  }

  /// One step on in the life of a machine; returns the next one.
  Nodes::iterator Advance(Nodes::iterator it) {
    switch (it->second.state) {
      case CloudState::kPending:
        it->second.state = CloudState::kRunning;
        break;
      case CloudState::kStopping:
        it->second.state = CloudState::kStopped;
        break;
      case CloudState::kEnding:
        return nodes_.erase(it);
      case CloudState::kRunning:
      case CloudState::kStopped:
        break;
    }
    return std::next(it);
  }

  bool HasRoom(const std::string& node_type) const {
    const auto limit = capacity_.find(node_type);
    if (limit == capacity_.end()) return true;
    return std::ranges::count_if(nodes_, [&node_type](const auto& entry) {
             return entry.second.node_type == node_type && entry.second.is_live();
           }) < limit->second;
  }

  const CloudNode& Make(const CreateRequest& request) {
    CloudNode node;
    node.id = fmt::format("i-{:04}", ++created_);
    node.kind = request.node.kind;
    node.node_type = request.node.node_type;
    node.launch_hash = request.node.launch_hash;
    node.status = kNewNodeStatus;
    node.internal_address = fmt::format("10.9.{}.{}", created_ / 250, created_ % 250 + 1);
    if (!addresses_.empty()) {
      node.internal_address = addresses_.front();
      addresses_.pop_front();
    }
    node.external_address = node.internal_address;
    node.tags = {{std::string(kTagCluster), cluster_},
                 {std::string(kTagKind), std::string(KindWord(node.kind))},
                 {std::string(kTagNodeType), node.node_type},
                 {std::string(kTagLaunchHash), node.launch_hash},
                 {std::string(kTagStatus), node.status},
                 {std::string(kTagRequest), request.request_id}};
    for (const auto& [key, value] : request.tags) node.tags[key] = value;
    const std::string id = node.id;
    return nodes_.insert_or_assign(id, std::move(node)).first->second;
  }

  const std::string cluster_;
  const std::vector<PreparedNode> prepared_;

  mutable std::mutex mutex_;  // guards the rest
  Nodes nodes_;
  std::map<std::string, std::deque<Status>> faults_;
  std::map<std::string, int> capacity_;
  std::deque<std::string> addresses_;
  std::vector<std::string> calls_;
  int created_ = 0;
  int lagging_lists_ = 0;
  int shortfall_ = 0;
  bool keeps_stopped_ = false;
  bool has_resources_ = false;
  bool is_cancelled_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_PROVIDER_H_
