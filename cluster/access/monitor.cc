// SPDX-License-Identifier: Apache-2.0
// `hvdray monitor FILE`: looks at the cluster again and again, and shows what it sees.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "base/screen.h"
#include "cluster/access/actions.h"
#include "cluster/access/cluster_look.h"
#include "launcher/engine/signals.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

// A look cannot be cancelled; the end does not wait for it.
constexpr Duration kEndPatience = std::chrono::milliseconds(100);

enum class Form : uint8_t { kTable, kChanges, kJson };

/// Shows look after look. Threads: the loop's.
class Screen {
 public:
  Screen(Form form, std::string path) : form_(form), path_(std::move(path)) {}

  /// Returns an exit code when the reader is gone.
  std::optional<int> Show(const Result<ClusterView>& look) {
    std::string text;
    switch (form_) {
      case Form::kTable:
        text = Table(look);
        break;
      case Form::kChanges:
        text = Changes(look);
        break;
      case Form::kJson:
        text = Object(look);
        break;
    }
    if (look.ok()) last_ = *look;
    has_failed_ = !look.ok();
    const int code = PrintOut("monitor", text);
    return code == 0 ? std::nullopt : std::optional<int>(code);
  }

 private:
  /// From the upper left corner; each line cut to the width, and the rest of the screen cleared.
  std::string Table(const Result<ClusterView>& look) const {
    std::vector<std::string> lines;
    if (look.ok()) {
      lines = ClusterViewLines(*look);
    } else {
      lines = {look.status().ToString()};
      if (last_) lines.emplace_back("seen last:");
      if (last_) std::ranges::copy(ClusterViewLines(*last_), std::back_inserter(lines));
    }
    lines.push_back("");
    lines.push_back(fmt::format("{}, Ctrl-C ends", WallText(std::chrono::system_clock::now())));
    const ScreenSize size = SizeOfScreen();
    if (lines.size() > size.rows) lines.resize(size.rows);
    return "\x1b[H" + DrawnLines(lines, size.columns) + "\x1b[J";
  }

  std::string Changes(const Result<ClusterView>& look) const {
    std::vector<std::string> lines;
    if (!look.ok()) {
      if (!has_failed_) lines.push_back("head: " + look.status().message());
    } else {
      if (has_failed_) lines.emplace_back("head: answers again");
      const ClusterView* before = last_ ? &*last_ : nullptr;
      std::ranges::copy(ClusterChanges(before, *look), std::back_inserter(lines));
    }
    std::string text;
    for (const std::string& line : lines)
      text += fmt::format("{} {}\n", WallText(std::chrono::system_clock::now()), line);
    return text;
  }

  std::string Object(const Result<ClusterView>& look) const {
    if (look.ok()) return ClusterViewJson(*look, /*indent=*/-1) + "\n";
    return ClusterErrorJson(path_, look.status(), WallMs()) + "\n";
  }

  const Form form_;
  const std::string path_;
  std::optional<ClusterView> last_;
  bool has_failed_ = false;
};

/// Looks, shows, waits, until a signal or a reader that is gone.
class Monitor {
 public:
  Monitor(Loop& loop, std::shared_ptr<ClusterLook> look, Screen& screen, Duration interval)
      : loop_(loop),
        pool_(loop, kEndPatience),
        look_(std::move(look)),
        screen_(screen),
        interval_(interval) {
    signals_ = std::make_unique<UserSignals>(
        loop, SignalHandlers{.on_stop = [this](int signo) { End(128 + signo); }});
  }

  int Run() {
    timer_ = loop_.After(interval_, [this] { Look(); });
    loop_.Run();
    return exit_code_;
  }

 private:
  void Look() {
    pool_.Run<Result<ClusterView>>([look = look_] { return look->Look(); },
                                   [this](const Result<ClusterView>& seen) {
                                     if (const auto code = screen_.Show(seen)) return End(*code);
                                     timer_ = loop_.After(interval_, [this] { Look(); });
                                   });
  }

  void End(int exit_code) {
    exit_code_ = exit_code;
    loop_.Stop();
  }

  Loop& loop_;
  BlockingPool pool_;
  const std::shared_ptr<ClusterLook> look_;  // with the look that runs
  Screen& screen_;
  const Duration interval_;
  std::unique_ptr<UserSignals> signals_;
  Watch timer_;
  int exit_code_ = 0;
};

Form FormOf(const CommandRequest& request) {
  if (request.Has(OptionId::kJson)) return Form::kJson;
  return IsScreen() ? Form::kTable : Form::kChanges;
}

}  // namespace

Result<int> MonitorCluster(ClusterAccess& access, const CommandRequest& request) {
  HVDRAY_ASSIGN_OR_RETURN(const Duration interval,
                          ToDuration(OptionId::kInterval, request.Get(OptionId::kInterval)));
  HVDRAY_ASSIGN_OR_RETURN(const std::unique_ptr<Loop> loop, Loop::Create());
  auto look = std::make_shared<ClusterLook>(access);
  Screen screen(FormOf(request), access.path);
  // The first one here: whatever is wrong with file, login or head is an error of the command.
  const Result<ClusterView> first = look->Look();
  if (!first.ok()) return first.status();
  const bool is_table = FormOf(request) == Form::kTable;
  // From here on a signal ends it in order: what is shown is taken back.
  Monitor monitor(*loop, std::move(look), screen, interval);
  // The alternate screen gives the user's own back at the end; the cursor only disturbs there.
  if (is_table) PrintOut("monitor", "\x1b[?1049h\x1b[?25l");
  std::optional<int> code = screen.Show(first);
  if (!code) code = monitor.Run();
  if (is_table) PrintOut("monitor", "\x1b[?25h\x1b[?1049l");
  return *code;
}

}  // namespace hvdray
