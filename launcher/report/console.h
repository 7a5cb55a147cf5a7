// SPDX-License-Identifier: Apache-2.0
// The queue in front of one console destination: items wait as raw bytes, bounded by the workers'
// credit, and become text only when the destination takes it.
#ifndef HVDRAY_LAUNCHER_REPORT_CONSOLE_H_
#define HVDRAY_LAUNCHER_REPORT_CONSOLE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "launcher/report/output_sink.h"
#include "wire/message.h"

namespace hvdray {

/// One entry of the queue.
struct ConsoleItem {
  enum class Kind : uint8_t {
    kOutput,   ///< Bytes of a worker; is_end: its last ones.
    kRestart,  ///< The stream restarts; bytes: its new tag.
    kMove,     ///< The stream changes its rank; bytes: its new tag.
    kPartial,  ///< Shows an open line now: it may be a prompt.
    kSay,      ///< A line of hvdray itself, without '\n'.
  };
  Kind kind = Kind::kOutput;
  int rank = 0;  ///< Identifies the worker.
  wire::StreamId stream = wire::StreamId::kStdout;
  std::string bytes;
  bool is_end = false;
  int place = 0;  ///< kRestart, kMove: the rank whose files it writes to.
};

/// Owns the queue and its sink. Never blocks. Threads: the loop's.
class Console {
 public:
  struct Handlers {
    /// Appends the text of an item. Returns how many of its worker's bytes that consumed: held
    /// bytes of a line count only once they are passed on.
    std::function<size_t(ConsoleItem& item, std::string& text)> render;
    /// That many bytes of the worker are written, or never will be.
    std::function<void(int rank, size_t bytes)> on_consumed;
    /// Once, from the loop: kReaderGone or kFailed with errno. All later output is discarded.
    std::function<void(OutputSink::Outcome outcome, int error)> on_trouble;
    /// From the loop or from Push(): is_idle() has become true.
    std::function<void()> on_idle;
  };
  Console(Loop& loop, std::unique_ptr<OutputSink> sink, Handlers handlers);

  /// Queues an item and writes what the destination takes.
  void Push(ConsoleItem item);
  /// Calls `done` once all that was pushed before is written, or never will be: at once, if so it
  /// is.
  void OnceWritten(std::function<void()> done);
  /// See JobOutput::ShowProgress(). Hidden while output waits or a line is open.
  void ShowProgress(std::string_view text);

  /// Nothing waits, and on_trouble has been called for any trouble.
  bool is_idle() const {
    return queue_.empty() && sent_ == text_.size() && !is_pumping_ && !is_trouble_untold_;
  }
  /// The destination takes no more for now.
  bool is_blocked() const { return sent_ < text_.size(); }
  bool is_terminal() const { return sink_->is_terminal(); }

 private:
  void Pump();
  void RenderBatch();
  bool Flush();
  void Settle();
  void Break(const OutputSink::Progress& progress);

  Loop& loop_;
  std::unique_ptr<OutputSink> sink_;
  Handlers handlers_;
  std::deque<ConsoleItem> queue_;
  uint64_t pushed_ = 0;                                             // items
  std::deque<std::pair<uint64_t, std::function<void()>>> awaited_;  // by pushed_, see OnceWritten()
  std::string text_;                                                // What is being written...
  size_t sent_ = 0;                           // ...and how much of it has gone.
  std::vector<std::pair<int, size_t>> owed_;  // Bytes by rank that text_ accounts for.
  bool is_at_line_start_ = true;
  bool is_line_open_ = false;  // The last character is neither '\n' nor '\r'.
  std::pair<int, wire::StreamId> writer_{-1, wire::StreamId::kStdout};  // Of the last output.
  bool is_progress_shown_ = false;
  bool is_broken_ = false;
  bool is_pumping_ = false;
  bool is_trouble_untold_ = false;
  Watch again_;    // The rest of a long pump.
  Watch trouble_;  // Delivers on_trouble.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_CONSOLE_H_
