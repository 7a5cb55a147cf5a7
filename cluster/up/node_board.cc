// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

/// On one line, whatever a remote command has said.
std::string OneLine(std::string_view text) {
  std::string line = ShownLine(text);
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

std::string ToText(const NodeRow& row, const std::string& step) {
  if (row.phase == NodePhase::kFailed) return OneLine("failed: " + row.why.message());
  return step.empty() ? std::string(row.state) : step;
}

}  // namespace

NodeBoard::Node& NodeBoard::At(size_t index) {
  if (index >= nodes_.size()) nodes_.resize(index + 1);
  return nodes_[index];
}

void NodeBoard::OnEffect(const ClusterEffect& effect, TimePoint now) {
  const auto* note = std::get_if<cluster_effect::Note>(&effect);
  if (note == nullptr) return;
  if (const auto* started = std::get_if<cluster_note::StepStarted>(&note->what)) {
    Node& node = At(static_cast<size_t>(started->node));
    node.step = node.text = OneLine(StepText(started->step));
    node.since = now;
  } else if (const auto* done = std::get_if<cluster_note::StepDone>(&note->what)) {
    At(static_cast<size_t>(done->node)).step.clear();
  }
}

void NodeBoard::Update(std::vector<NodeRow> rows, TimePoint now) {
  rows_ = std::move(rows);
  for (size_t i = 0; i < rows_.size(); ++i) {
    Node& node = At(i);
    std::string text = ToText(rows_[i], node.step);
    if (text == node.text) continue;
    node.text = std::move(text);
    node.since = now;
  }
}

std::vector<std::string> NodeBoard::Lines(size_t height, TimePoint now) const {
  std::vector<size_t> order(rows_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  size_t shown = order.size();
  if (shown > height) {
    shown = height == 0 ? 0 : height - 1;
    std::stable_sort(order.begin(), order.end(),
                     [this](size_t a, size_t b) { return rows_[a].phase < rows_[b].phase; });
  }
  size_t width = 0;
  for (const NodeRow& row : rows_) width = std::max(width, row.address.size());
  std::vector<std::string> lines;
  for (size_t i = 0; i < shown; ++i) {
    const NodeRow& row = rows_[order[i]];
    const Node& node = nodes_[order[i]];
    const auto held = std::chrono::duration_cast<std::chrono::seconds>(now - node.since);
    lines.push_back(fmt::format("{:{}}  {:6}  {:>4} s  {}", row.address, width,
                                row.is_head ? "head" : "worker", held.count(), node.text));
  }
  if (shown == rows_.size() || height == 0) return lines;
  std::map<std::pair<NodePhase, std::string_view>, size_t> rest;
  for (size_t i = shown; i < order.size(); ++i) {
    ++rest[{rows_[order[i]].phase, rows_[order[i]].state}];
  }
  std::vector<std::string> counts;
  counts.reserve(rest.size());
  for (const auto& [state, count] : rest) {
    counts.push_back(fmt::format("{} {}", count, state.second));
  }
  lines.push_back(fmt::format("{} more: {}", order.size() - shown, fmt::join(counts, ", ")));
  return lines;
}

}  // namespace hvdray
