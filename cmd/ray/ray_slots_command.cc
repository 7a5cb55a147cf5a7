// `hvdray slots --ray`: how many slots each node of a Ray cluster has room for now. Only looks.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/shown_text.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/launch_plan.h"
#include "cmd/ray/ray_words.h"
#include "launcher/spec/value_text.h"

namespace hvdray {
namespace {

Status NotAPair(std::string_view option, std::string_view word, std::string_view form) {
  return {ErrorCode::kUsage, fmt::format("{}: '{}' is not {}", option, ShownText(word), form)};
}

Result<RayAsk> AskOf(const SlotOptions& slots) {
  RayAsk ask;
  ask.cpus_per_slot = slots.cpus;
  ask.gpus_per_slot = slots.gpus.value_or(slots.uses_gpu ? 1 : 0);
  for (const std::string& word : slots.resources) {
    const size_t equals = word.find('=');
    const Result<double> amount =
        ParseNumber(equals == std::string::npos ? "" : std::string_view(word).substr(equals + 1));
    if (equals == 0 || !amount.ok() || *amount <= 0) {
      return NotAPair("--resources-per-slot", word, "NAME=AMOUNT with an amount above 0");
    }
    ask.slot_resources[word.substr(0, equals)] = *amount;
  }
  for (const std::string& word : slots.labels) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return NotAPair("--label-selector", word, "NAME=VALUE");
    }
    ask.labels[word.substr(0, equals)] = word.substr(equals + 1);
  }
  // What can't be a slot of a job can't be one here.
  HVDRAY_RETURN_IF_ERROR(MakeRayRequest(ask).status());
  return ask;
}

}  // namespace

int SlotsCommand(const CommandLine& line) {
  RayWords words;
  SlotOptions slots;
  CLI::App app;
  DeclareSlots(app, words, slots);
  if (const std::optional<int> code = ParseRayWords(app, "slots", line.args)) return *code;
  const Result<RayAsk> ask = AskOf(slots);
  if (!ask.ok()) return Fail("slots", ask.status());
  Result<RayAccess> access = ResolveRayAccess("slots", words);
  if (!access.ok()) return Fail("slots", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("slots", cluster.status());
  return PrintOut("slots",
                  words.is_json ? RaySlotsJson(*cluster, *ask) : RaySlotsText(*cluster, *ask));
}

}  // namespace hvdray
