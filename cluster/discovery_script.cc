#include "cluster/discovery_script.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/shown_text.h"
#include "cluster/host_news.h"
#include "cluster/script_run.h"

namespace hvdray {
namespace {

constexpr std::string_view kBlanks = " \t\n";
// With any of these the word is the shell's business.
constexpr std::string_view kShellCharacters = "|&;<>()$`\\\"'*?[]#~=%!{}";

class DiscoveryScript final : public HostSource {
 public:
  DiscoveryScript(Loop& loop, DiscoveryScriptOptions options)
      : loop_(loop), options_(std::move(options)) {}

  Status Start(Handlers handlers) override {
    HVDRAY_RETURN_IF_ERROR(CheckDiscoveryCommand(options_.command));
    handlers_ = std::move(handlers);
    RunAfter(Duration::zero());
    return {};
  }

  void Stop() override {
    timer_.Cancel();
    run_.reset();
  }

 private:
  void RunAfter(Duration pause) {
    timer_ = loop_.After(pause, [this] { Run(); });
  }

  void Run() {
    Result<std::unique_ptr<ScriptRun>> run = ScriptRun::Start(
        loop_, {options_.command, options_.limit, options_.max_output_bytes, options_.on_stderr},
        [this](Result<std::string> output) { OnDone(std::move(output)); });
    if (!run.ok()) return OnDone(std::move(run).status());
    run_ = std::move(run).value();
  }

  // Handlers are called last and as copies: they may end us.
  void OnDone(Result<std::string> output) {
    run_.reset();
    RunAfter(options_.interval);
    if (!output.ok()) return Fail(std::move(output).status());
    std::string warning;
    Result<std::vector<HostSlots>> hosts = options_.parse(*output, &warning);
    if (!hosts.ok()) return Fail(std::move(hosts).status());
    if (news_.IsNewWarning(warning)) Log(LogLevel::kWarning, "discovery", "{}", warning);
    if (!news_.IsNews(*hosts)) return;
    const auto on_hosts = handlers_.on_hosts;
    on_hosts(std::move(hosts).value(), /*is_final=*/false);
  }

  void Fail(Status why) {
    if (!news_.IsNews(why)) return;
    const auto on_failure = handlers_.on_failure;
    on_failure(std::move(why).WithContext(
        fmt::format("host discovery script '{}'", ShownText(options_.command))));
  }

  Loop& loop_;
  DiscoveryScriptOptions options_;
  Handlers handlers_;
  HostNews news_;
  std::unique_ptr<ScriptRun> run_;
  Watch timer_;
};

}  // namespace

Status CheckDiscoveryCommand(const std::string& command) {
  const size_t first = command.find_first_not_of(kBlanks);
  if (first == std::string::npos) {
    return {ErrorCode::kUsage, "the host discovery script is empty"};
  }
  const size_t end = command.find_first_of(kBlanks, first);
  const std::string word =
      command.substr(first, end == std::string::npos ? std::string::npos : end - first);
  // Without a slash it may be a word of the shell's own.
  if (word.find('/') == std::string::npos ||
      word.find_first_of(kShellCharacters) != std::string::npos) {
    return {};
  }
  const std::string what = fmt::format("host discovery script '{}'", ShownText(word));
  struct stat info {};
  if (::stat(word.c_str(), &info) != 0) {
    return {ErrorCode::kFileUnreadable, fmt::format("{}: {}", what, ::strerror(errno))};
  }
  if (S_ISDIR(info.st_mode)) return {ErrorCode::kUsage, what + " is a folder"};
  if (::access(word.c_str(), X_OK) != 0) {
    return {ErrorCode::kUsage, what + " is not executable",
            fmt::format("chmod +x it, or name what runs it: 'sh {}'", ShownText(word))};
  }
  return {};
}

std::unique_ptr<HostSource> MakeDiscoveryScript(Loop& loop, DiscoveryScriptOptions options) {
  return std::make_unique<DiscoveryScript>(loop, std::move(options));
}

}  // namespace hvdray
