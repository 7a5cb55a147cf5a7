// `hvdray slots --ray`: how many slots each node of a Ray cluster has room for now. Only looks.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/shown_text.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/launch_plan.h"
#include "cmd/ray_words.h"
#include "launcher/spec/value_text.h"

namespace hvdray {
namespace {

struct SlotWords {
  RayWords ray;
  double cpus = 1;
  std::optional<double> gpus;
  bool uses_gpu = false;
  std::vector<std::string> resources;
  std::vector<std::string> labels;
};

void Declare(CLI::App& app, SlotWords& words) {
  DeclareRayWords(app, words.ray);
  app.add_option("--cpus-per-slot", words.cpus, "CPUs of one slot")
      ->envname("HVDRAY_CPUS_PER_SLOT")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--gpus-per-slot", words.gpus, "GPUs of one slot; 1 with --use-gpu, else 0")
      ->envname("HVDRAY_GPUS_PER_SLOT")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("N");
  app.add_flag("--use-gpu", words.uses_gpu, "slots with a GPU")->envname("HVDRAY_USE_GPU");
  app.add_option("--resources-per-slot", words.resources,
                 "another resource of one slot, as the cluster names it; repeatable")
      ->envname("HVDRAY_RESOURCES_PER_SLOT")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=AMOUNT");
  app.add_option("--label-selector", words.labels,
                 "only nodes with this label; VALUE may be !spot, in(a,b) or !in(a,b); repeatable")
      ->envname("HVDRAY_LABEL_SELECTOR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=VALUE");
  app.footer("  hvdray slots --ray-address http://10.0.0.10:8265 --cpus-per-slot 4 --use-gpu");
}

Status NotAPair(std::string_view option, std::string_view word, std::string_view form) {
  return {ErrorCode::kUsage, fmt::format("{}: '{}' is not {}", option, ShownText(word), form)};
}

Result<RayAsk> AskOf(const SlotWords& words) {
  RayAsk ask;
  ask.cpus_per_slot = words.cpus;
  ask.gpus_per_slot = words.gpus.value_or(words.uses_gpu ? 1 : 0);
  for (const std::string& word : words.resources) {
    const size_t equals = word.find('=');
    const Result<double> amount =
        ParseNumber(equals == std::string::npos ? "" : std::string_view(word).substr(equals + 1));
    if (equals == 0 || !amount.ok() || *amount <= 0) {
      return NotAPair("--resources-per-slot", word, "NAME=AMOUNT with an amount above 0");
    }
    ask.slot_resources[word.substr(0, equals)] = *amount;
  }
  for (const std::string& word : words.labels) {
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
  SlotWords words;
  CLI::App app("Says how many slots a job could get from a Ray cluster now, node by node.",
               "hvdray slots");
  Declare(app, words);
  if (const std::optional<int> code = ParseRayWords(app, "slots", line.args)) return *code;
  const Result<RayAsk> ask = AskOf(words);
  if (!ask.ok()) return Fail("slots", ask.status());
  Result<RayAccess> access = ResolveRayAccess("slots", words.ray);
  if (!access.ok()) return Fail("slots", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("slots", cluster.status());
  return PrintOut("slots",
                  words.ray.is_json ? RaySlotsJson(*cluster, *ask) : RaySlotsText(*cluster, *ask));
}

}  // namespace hvdray
