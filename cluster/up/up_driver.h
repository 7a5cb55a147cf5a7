// SPDX-License-Identifier: Apache-2.0
// Decides what `hvdray up` does: each node by itself (up_node.h), all at once, and here what they
// wait for of each other: the plan, the head's GCS before the workers' Ray, the end of their former
// Ray before the head's, and the head's word that each has joined. Pure.
#ifndef HVDRAY_CLUSTER_UP_UP_DRIVER_H_
#define HVDRAY_CLUSTER_UP_UP_DRIVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/up/cluster_driver.h"
#include "cluster/up/node_script.h"
#include "cluster/up/up_node.h"

namespace hvdray {

/// Facts, effects and rows name nodes by their index in `nodes`; 0 is the head. A node that fails
/// stays failed and the others go on; workers that still need a failed head fail with it.
/// Always: no node changes before the plan, no worker starts Ray before the head's GCS takes
/// connections, and the head is asked or told one thing at a time.
class UpDriver final : public ClusterDriver {
 public:
  /// `nodes`: at least one; their steps run in order. `token`: Ray's, for a cluster that has none
  /// yet. Secret.
  UpDriver(UpPolicy policy, std::vector<UpNode> nodes, std::string token);
  UpDriver(const UpDriver&) = delete;
  UpDriver& operator=(const UpDriver&) = delete;

  ClusterEffects Begin(TimePoint now) override;
  ClusterEffects Handle(const ClusterEvent& event, TimePoint now) override;
  std::optional<TimePoint> NextDeadline() const override;

  std::vector<NodeRow> Rows() const override;
  /// The end of the cluster's lease, once there is a plan; 0: none.
  int64_t lease() const { return lease_; }
  /// The head as it was looked at last.
  const NodeSurvey& head_survey() const { return nodes_.front().survey(); }
  /// The plan is made and agreed to.
  bool is_working() const override { return is_working_; }

 private:
  void On(const cluster_event::LoggedIn& fact);
  void On(const cluster_event::Lost& fact);
  void On(const cluster_event::Done& fact);
  void On(const cluster_event::Listening& fact);
  void On(const cluster_event::Answer& fact);
  void On(const event::Tick& fact);

  /// Does what has become possible by the last fact.
  void Advance();
  void MakePlan();
  std::string DecideLease();
  void Work();
  void LetNodesGoOn();
  bool IsHeadFree() const;
  bool CanAsk() const;
  void AskForNodes();
  void OnNodes(const TaskResult& result);
  std::vector<std::string> MembersNow() const;
  bool NoteMembers();
  void OnMembersNoted(const TaskResult& result);
  void FinishIfOver();

  UpNodeDriver& NodeAt(int node) { return nodes_[static_cast<size_t>(node)]; }
  UpNodeDriver& head() { return nodes_.front(); }
  const UpNodeDriver& head() const { return nodes_.front(); }

  UpContext context_;
  std::vector<UpNodeDriver> nodes_;
  std::string token_;
  JoinedNodes ray_nodes_;  ///< At the time of the look.
  int64_t lease_ = 0;
  bool is_planned_ = false;  ///< All nodes were looked at.
  bool is_working_ = false;
  std::vector<std::string> members_;  ///< What the head has noted.
  bool is_asking_ = false;            ///< The head is busy with `nodes`.
  bool is_noting_ = false;            ///< The head is busy with `members`.
  bool is_head_lost_ = false;
  bool is_head_listening_ = false;
  bool is_over_ = false;
  std::optional<TimePoint> ask_at_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_UP_DRIVER_H_
