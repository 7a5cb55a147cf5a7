// SPDX-License-Identifier: Apache-2.0
// `hvdray slots --ray`: how many slots each node of a Ray cluster has room for now. Only looks.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/shown_text.h"
#include "cmd/commands.h"
#include "cmd/launch_plan.h"
#include "cmd/ray_words.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {
namespace {

Result<RayAsk> AskOf(const SlotOptions& slots) {
  RayAsk ask;
  ask.cpus_per_slot = slots.cpus;
  HVDRAY_RETURN_IF_ERROR(CheckSlotGpus("--gpus-per-slot", slots.gpus, slots.uses_gpu));
  ask.gpus_per_slot = slots.gpus.value_or(slots.uses_gpu ? 1 : 0);
  for (const std::string& word : slots.resources) {
    HVDRAY_ASSIGN_OR_RETURN(const auto resource, ParseSlotResource("--resources-per-slot", word));
    ask.slot_resources[resource.first] = resource.second;
  }
  for (const std::string& word : slots.labels) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return Status(ErrorCode::kUsage,
                    fmt::format("--label-selector: '{}' is not NAME=VALUE", ShownText(word)));
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
