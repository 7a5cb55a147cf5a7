// SPDX-License-Identifier: Apache-2.0
// What a user at a terminal sees of the nodes while `hvdray up` or `hvdray down` works: one line
// each with its present step. Pure.
#ifndef HVDRAY_CLUSTER_UP_NODE_BOARD_H_
#define HVDRAY_CLUSTER_UP_NODE_BOARD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cluster/up/cluster_driver.h"

namespace hvdray {

/// Call OnEffect() for each effect and Update() before Lines(). Threads: one.
class NodeBoard {
 public:
  /// Takes the steps out of a driver's effects.
  void OnEffect(const ClusterEffect& effect, TimePoint now);
  /// Takes the states: the driver's rows as of `now`.
  void Update(std::vector<NodeRow> rows, TimePoint now);
  /// "10.0.0.1  head      12 s  setup 2/3: pip install torch", in the driver's order. If there are
  /// more nodes than `height`, first those at work, and a last line counts the rest by state.
  std::vector<std::string> Lines(size_t height, TimePoint now) const;

 private:
  struct Node {
    std::string step;  // Empty: none runs.
    std::string text;
    TimePoint since{};  // It has this text.
  };
  Node& At(size_t index);

  std::vector<NodeRow> rows_;
  std::vector<Node> nodes_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_NODE_BOARD_H_
