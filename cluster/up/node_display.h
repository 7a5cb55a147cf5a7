// SPDX-License-Identifier: Apache-2.0
// Shows the board of the nodes on a terminal, below what `hvdray up` or `hvdray down` prints, from
// the plan that is agreed to until the end.
#ifndef HVDRAY_CLUSTER_UP_NODE_DISPLAY_H_
#define HVDRAY_CLUSTER_UP_NODE_DISPLAY_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/screen.h"
#include "cluster/up/cluster_driver.h"
#include "cluster/up/node_board.h"

namespace hvdray {

/// Threads: the loop's.
class NodeDisplay {
 public:
  using Write = std::function<void(std::string_view text)>;
  /// All outlive it. `write`: to the terminal behind stdout.
  NodeDisplay(Loop& loop, const ClusterDriver& driver, Write write);
  /// Erases the board.
  ~NodeDisplay();
  NodeDisplay(const NodeDisplay&) = delete;
  NodeDisplay& operator=(const NodeDisplay&) = delete;

  // Call for every fact and effect, in order.
  void OnFact(const ClusterEvent& fact);
  void OnEffect(const ClusterEffect& effect, TimePoint now);
  /// The board tells the steps of the nodes. Not while another job of the shell has the terminal.
  bool is_on() const;
  /// Prints text above the board; lines that come fast are held for up to 0.1 s.
  void Print(std::string_view text);
  /// Calls `write`, which writes whole lines to stderr, with no board in the way.
  void Above(const std::function<void()>& write);
  /// Erases the board until Resume(), or for good.
  void Pause();
  void Resume();
  void End();

 private:
  void Touch();
  void Paint();
  void Erase();

  Loop& loop_;
  const ClusterDriver& driver_;
  const Write write_;
  NodeBoard board_;
  ScreenBlock block_;
  std::vector<std::string> drawn_;  // the block's lines
  size_t drawn_columns_ = 0;
  std::string held_;  // Printed, but not yet written; or a line that the next one overwrites.
  bool is_agreed_ = false;
  bool is_paused_ = false;
  bool is_over_ = false;
  TimePoint painted_{};
  Watch soon_;
  Watch second_;
  Watch resized_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_NODE_DISPLAY_H_
