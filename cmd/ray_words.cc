#include "cmd/ray_words.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "cluster/ray/ray_free.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/launch_plan.h"

namespace hvdray {
namespace {

constexpr double kMaxTimeoutSeconds = 3600;

/// "hvdray/0.1.0" of "hvdray 0.1.0 (abc1234)".
std::string UserAgent() {
  const std::string name = BuildName();
  const size_t begin = name.find(' ') + 1;
  return "hvdray/" + name.substr(begin, name.find(' ', begin) - begin);
}

}  // namespace

void DeclareRayWords(CLI::App& app, RayWords& words, RayWordSet set) {
  if (set == RayWordSet::kAll) app.add_flag("--ray", words.is_ray, "look at a Ray cluster");
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
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE))
      ->check(CLI::Range(0.001, kMaxTimeoutSeconds))
      ->default_str("30s")
      ->type_name("DURATION");
  if (set != RayWordSet::kAll) return;
  app.add_flag("--json", words.is_json, "print one JSON object (docs/ray.md) instead of text");
}

std::optional<int> ParseRayWords(CLI::App& app, std::string_view command,
                                 std::span<const std::string> args) {
  try {
    // CLI11 takes its words from the back.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return PrintOut(command, app.help());
  } catch (const CLI::Error& error) {
    return Fail(command, Status(ErrorCode::kUsage, error.what(),
                                fmt::format("hvdray {} --help lists the options", command)));
  }
}

Result<RayAccess> ResolveRayAccess(std::string_view command, RayWords& words) {
  const Environment environment = Environment::FromProcess();
  std::string given = words.address;
  std::string origin = words.address_origin;
  if (given.empty() && !words.cluster.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(given, words.found.FindIn(words.cluster));
    origin = words.cluster;
  }
  if (given.empty()) {
    given = environment.GetOr("HVDRAY_RAY_ADDRESS", "");
    origin = "env HVDRAY_RAY_ADDRESS";
  }
  if (!words.is_ray && given.empty()) {
    return Status(ErrorCode::kUsage, "of which cluster?",
                  fmt::format("hvdray {} --ray, --ray-address URL, or --cluster FILE", command));
  }
  RayAccess access;
  HVDRAY_ASSIGN_OR_RETURN(access.address, ResolveRayAddress(given, origin, environment));
  HVDRAY_ASSIGN_OR_RETURN(access.headers, ResolveRayHeaders(words.headers, environment));
  HVDRAY_ASSIGN_OR_RETURN(access.token, FindRayToken(environment));
  access.trust = ParseRayVerify(words.verify);
  access.user_agent = UserAgent();
  access.timeout = std::chrono::duration_cast<Duration>(Seconds(words.timeout_s));
  if (!access.address.note.empty()) {
    std::fputs(fmt::format("hvdray {}: {}\n", command, access.address.note).c_str(), stderr);
  }
  return access;
}

Result<RaySnapshot> LookAtRay(RayAccess access) {
  RaySnapshot cluster;
  cluster.url = access.address.Url();
  DashboardClient client(std::move(access));
  HVDRAY_ASSIGN_OR_RETURN(cluster.version, client.Version());
  HVDRAY_ASSIGN_OR_RETURN(cluster.nodes, client.Nodes());
  HVDRAY_ASSIGN_OR_RETURN(cluster.status, client.ClusterStatus());
  UndoCamelCase(cluster.nodes, cluster.status);
  FillFree(cluster.status, cluster.nodes);
  return cluster;
}

}  // namespace hvdray
