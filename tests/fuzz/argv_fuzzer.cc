// SPDX-License-Identifier: Apache-2.0
// Any words after `hvdray run`, and other commands: a spec or one line of error, and the same
// answer twice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/job/options_resolver.h"
#include "launcher/job/plan_text.h"

/// The input is words that end at newlines; one that begins with '$' is NAME=VALUE of the
/// environment.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdray;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> args;
  Environment environment;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = word.find('=');
    if (word.starts_with('$') && equals != std::string::npos) {
      environment.Set(word.substr(1, equals - 1), word.substr(equals + 1));
    } else {
      args.push_back(word);
    }
  }
  const ResolverFiles files = {
      [](const std::string&) { return Result<std::optional<std::string>>(std::nullopt); },
      [](const std::string&) { return false; }, nullptr};
  for (const CommandRow& command : CommandTable()) {
    if (command.is_launch || command.arguments.empty()) continue;
    const Status status = ResolveRequest(command.name, args, environment).status();
    HVDRAY_CHECK(status.ok() != !status.message().empty());
    HVDRAY_CHECK(status.message().find('\n') == std::string::npos);
  }
  if (const auto bench = ResolveBench(args); bench.ok()) {
    // What a rank gets means the same again.
    HVDRAY_CHECK(bench->wants_help || bench->wants_version ||
                 ResolveBench(bench->bench_words)->bench_words == bench->bench_words);
  }
  const Result<RunRequest> request = ResolveRun(args, environment, files);
  if (!request.ok()) {
    HVDRAY_CHECK(!request.status().message().empty());
    HVDRAY_CHECK(request.status().message().find('\n') == std::string::npos);
    HVDRAY_CHECK(request.status() == ResolveRun(args, environment, files).status());
    return 0;
  }
  HVDRAY_CHECK(!PrintConfig(request->spec, PlanFormat::kText).empty());
  HVDRAY_CHECK(!PrintConfig(request->spec, PlanFormat::kJson).empty());
  HVDRAY_CHECK(!WorkerEnvironment(request->spec, environment, true).values().empty() ||
               request->wants_help);
  return 0;
}
