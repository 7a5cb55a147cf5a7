#include "cmd/ray_options.h"

#include "cmd/cli_values.h"

namespace hvdray {
namespace {

constexpr double kMaxTimeoutSeconds = 3600;

enum class RayOptionSet : uint8_t {
  kAll,     ///< --ray, --ray-address, --ray-verify, --ray-headers, --timeout, --json.
  kAccess,  ///< Without --ray and --json: of commands that only Ray has a meaning for.
};

void DeclareRay(CLI::App& app, RayOptions& words, RayOptionSet set) {
  if (set == RayOptionSet::kAll) app.add_flag("--ray", words.is_ray, "look at a Ray cluster");
  app.add_option("--ray-address", words.address,
                 "its dashboard, as in http://10.0.0.10:8265; implies --ray; else "
                 "RAY_API_SERVER_ADDRESS, RAY_ADDRESS if it is http(s), http://127.0.0.1:8265")
      ->type_name("URL");
  app.add_option("--cluster", words.cluster,
                 "a cluster file: the Ray on its head, through SSH where that is needed")
      ->type_name("FILE");
  app.add_option("--ray-verify", words.verify,
                 "of https: whether the certificate is checked, or the file or folder of those "
                 "that are believed")
      ->envname("HVDRAY_RAY_VERIFY")
      ->type_name("true|false|PATH");
  app.add_option("--ray-headers", words.headers,
                 "JSON object of headers for a proxy before the dashboard; else RAY_JOB_HEADERS")
      ->envname("HVDRAY_RAY_HEADERS")
      ->type_name("JSON");
  app.add_option("--timeout", words.timeout_s, "the longest that one answer may take")
      ->transform(DurationValue())
      ->check(Within(0.001, kMaxTimeoutSeconds))
      ->default_str("30s")
      ->type_name("DURATION");
  if (set != RayOptionSet::kAll) return;
  app.add_flag("--json", words.is_json, "print one JSON object (docs/ray.md) instead of text");
}

}  // namespace

void DeclareStatus(CLI::App& app, RayOptions& ray) {
  app.name("hvdray status");
  app.description("Says what a Ray cluster has, what of it is in use, and what waits for room.");
  DeclareRay(app, ray, RayOptionSet::kAll);
}

void DeclareJobs(CLI::App& app, RayOptions& ray) {
  app.name("hvdray jobs");
  app.description("Lists the jobs that hvdray has submitted to a Ray cluster, the newest first.");
  DeclareRay(app, ray, RayOptionSet::kAll);
}

void DeclareSlots(CLI::App& app, RayOptions& ray, SlotOptions& slots) {
  app.name("hvdray slots");
  app.description("Says how many slots a job could get from a Ray cluster now, node by node.");
  DeclareRay(app, ray, RayOptionSet::kAll);
  app.add_option("--cpus-per-slot", slots.cpus, "CPUs of one slot")
      ->envname("HVDRAY_CPUS_PER_SLOT")
      ->check(Within(0.0, 1e9))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--gpus-per-slot", slots.gpus,
                 "GPUs of one slot, a whole number; needs --use-gpu, which alone means 1")
      ->envname("HVDRAY_GPUS_PER_SLOT")
      ->check(Within(0.0, 1e9))
      ->type_name("N");
  app.add_flag("--use-gpu", slots.uses_gpu, "slots with a GPU")->envname("HVDRAY_USE_GPU");
  app.add_option(
         "--resources-per-slot", slots.resources,
         "another resource of one slot, as the cluster names it, or memory=1GiB; repeatable")
      ->envname("HVDRAY_RESOURCES_PER_SLOT")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=AMOUNT");
  app.add_option("--label-selector", slots.labels,
                 "only nodes with this label; VALUE may be !spot, in(a,b) or !in(a,b); repeatable")
      ->envname("HVDRAY_LABEL_SELECTOR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=VALUE");
  app.footer("  hvdray slots --ray-address http://10.0.0.10:8265 --cpus-per-slot 4 --use-gpu");
}

void DeclareFollow(CLI::App& app, RayOptions& ray, FollowOptions& follow) {
  app.name("hvdray follow");
  app.description("Follows a job on Ray that was submitted before: its output, its exit code.");
  DeclareRay(app, ray, RayOptionSet::kAccess);
  app.add_option("ID", follow.id, "the job, as hvdray run --detach has printed it")
      ->type_name("")
      ->required();
  app.add_flag("--stop", follow.is_stop, "stop the job in good order, and follow it to its end");
  app.add_flag("-q,--quiet", follow.is_quiet, "nothing from hvdray itself but errors");
  const auto file = [&app](const char* name, std::string& path, const char* what) {
    app.add_option(name, path, what)->type_name("FILE");
  };
  file("--report", follow.report, "write the job's report there when it has ended");
  file("--events", follow.events, "write its events there, if it was submitted with --events");
  file("--junit", follow.junit, "the same for --junit");
  file("--trace", follow.trace, "the same for --trace");
  file("--record", follow.record, "the same for --record");
  app.add_option("--output-filename", follow.output_folder,
                 "also write each worker's output to FOLDER/rank.N/stdout and stderr")
      ->type_name("FOLDER");
  app.footer(
      "Ctrl-C leaves the job alone; with --stop, it ends it at once.\n"
      "  hvdray follow hvd-20261122-101500-0a1b2c3d --ray-address http://10.0.0.10:8265");
}

}  // namespace hvdray
