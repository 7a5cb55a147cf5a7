// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/node_display.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(100);
// More text than this is not held.
constexpr size_t kMaxHeld = size_t{64} << 10;

}  // namespace

NodeDisplay::NodeDisplay(Loop& loop, const ClusterDriver& driver, Write write)
    : loop_(loop), driver_(driver), write_(std::move(write)) {}

NodeDisplay::~NodeDisplay() { End(); }

bool NodeDisplay::is_on() const {
  return is_agreed_ && !is_over_ && !is_paused_ && IsInForeground(STDOUT_FILENO);
}

void NodeDisplay::OnFact(const ClusterEvent& fact) {
  if (const auto* answer = std::get_if<cluster_event::Answer>(&fact)) is_agreed_ = answer->is_yes;
  Touch();
}

void NodeDisplay::OnEffect(const ClusterEffect& effect, TimePoint now) {
  board_.OnEffect(effect, now);
  if (const auto* note = std::get_if<cluster_effect::Note>(&effect)) {
    if (std::holds_alternative<cluster_note::Planned>(note->what)) is_agreed_ = true;
  } else if (std::holds_alternative<cluster_effect::Ask>(effect)) {
    is_agreed_ = false;
  } else if (std::holds_alternative<cluster_effect::Finish>(effect)) {
    return End();
  }
  Touch();
}

void NodeDisplay::Print(std::string_view text) {
  held_ += text;
  if (!is_on()) return Erase();
  if (held_.size() > kMaxHeld) return Paint();
  Touch();
}

void NodeDisplay::Above(const std::function<void()>& write) {
  Erase();
  write();
  Touch();
}

void NodeDisplay::Pause() {
  Erase();
  is_paused_ = true;
}

void NodeDisplay::Resume() {
  is_paused_ = false;
  Touch();
}

void NodeDisplay::End() {
  Erase();
  is_over_ = true;
  soon_.Cancel();
  second_.Cancel();
  resized_.Cancel();
}

void NodeDisplay::Touch() {
  if (!is_on() || soon_.is_active()) return;
  if (!second_.is_active()) {
    second_ = loop_.Every(std::chrono::seconds(1), [this] { Touch(); });
    resized_ = loop_.OnSignal(SIGWINCH, [this] { Touch(); });
  }
  // Never at once: what happens together is painted together.
  const Duration rest = painted_ + kPause - loop_.Now();
  soon_ = loop_.After(std::max(rest, Duration::zero()), [this] {
    soon_.Cancel();
    Paint();
  });
}

void NodeDisplay::Paint() {
  if (!is_on()) return Erase();
  painted_ = loop_.Now();
  board_.Update(driver_.Rows(), painted_);
  const ScreenSize size = SizeOfScreen();
  std::vector<std::string> lines = board_.Lines(size.rows > 3 ? size.rows - 2 : 1, painted_);
  const size_t end = held_.rfind('\n') + 1;
  std::string whole = held_.substr(0, end);
  held_.erase(0, end);
  // A line that ends in '\r' is not yet done, as of a progress bar.
  if (held_.size() > 1) {
    const size_t before = held_.rfind('\r', held_.size() - 2);
    if (before != std::string::npos) held_.erase(0, before + 1);
    lines.insert(lines.begin(), ShownLine(held_.substr(0, held_.find('\r'))));
  }
  if (whole.empty() && lines == drawn_ && size.columns == drawn_columns_ && block_.is_drawn())
    return;
  write_(block_.Draw(whole, lines, size.columns));
  drawn_ = std::move(lines);
  drawn_columns_ = size.columns;
}

void NodeDisplay::Erase() {
  const std::string text = std::exchange(held_, {});
  if (block_.is_drawn() || !text.empty()) {
    write_(block_.Draw(text, {}, SizeOfScreen().columns));
  }
}

}  // namespace hvdray
