#include "launcher/job/ray_job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/shown_text.h"
#include "launcher/job/spec_json.h"

namespace hvdray {
namespace {

constexpr size_t kKeyDigits = 64;

bool IsKey(std::string_view key) {
  return key.size() == kKeyDigits && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status Wrong(const char* what) { return {ErrorCode::kProtocolError, what}; }

}  // namespace

std::string RayJobFileText(const RayJobFile& job) {
  // For the client's own way to the dashboard, and maybe a password: nobody on the nodes needs it.
  JobSpec spec = job.spec;
  spec.ray.headers = Setting<std::string>();
  // Pairs, since a name too may be anything.
  Json environment = Json::array();
  for (const auto& [name, value] : job.environment.values()) {
    environment.push_back(Json::array({BytesToJson(name), BytesToJson(value)}));
  }
  const Json json = {{"job_id", job.job_id},
                     {"build", job.build},
                     {"key", job.key},
                     {"can_grow", job.can_grow},
                     {"options", SpecToJson(spec)},
                     {"environment", std::move(environment)}};
  return DumpJson(json) + "\n";
}

Result<RayJobFile> ParseRayJobFile(ByteView text) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseJson(text, kMaxRayJobFileBytes));
  if (!json.is_object()) return Wrong("it is no JSON object");
  RayJobFile job;
  HVDRAY_ASSIGN_OR_RETURN(job.job_id, JsonString(json, "job_id", ""));
  HVDRAY_ASSIGN_OR_RETURN(job.build, JsonString(json, "build", ""));
  HVDRAY_ASSIGN_OR_RETURN(job.key, JsonString(json, "key", ""));
  HVDRAY_ASSIGN_OR_RETURN(job.can_grow, JsonBool(json, "can_grow", true));
  if (job.job_id.empty()) return Wrong("it has no job_id");
  if (!IsKey(job.key)) return Wrong("its key is not 64 hex digits");
  const auto options = json.find("options");
  if (options == json.end()) return Wrong("it has no options");
  Result<JobSpec> spec = SpecFromJson(*options);
  if (!spec.ok()) {
    return std::move(spec)
        .status()
        .WithCode(ErrorCode::kProtocolMismatch)
        .WithContext(fmt::format("options that '{}' wrote", ShownText(job.build)));
  }
  job.spec = std::move(spec).value();
  const auto environment = json.find("environment");
  if (environment == json.end()) return job;
  for (const Json& pair : *environment) {
    if (!pair.is_array() || pair.size() != 2) return Wrong("its environment is no list of pairs");
    HVDRAY_ASSIGN_OR_RETURN(std::string name, BytesFromJson(pair[0]));
    HVDRAY_ASSIGN_OR_RETURN(std::string value, BytesFromJson(pair[1]));
    job.environment.Set(std::move(name), std::move(value));
  }
  return job;
}

Environment EnvironmentForRay(const JobSpec& spec, const Environment& client) {
  Environment result;
  for (const auto& [name, value] : client.values()) {
    const bool is_named = std::find(spec.env->begin(), spec.env->end(), name) != spec.env->end();
    if (is_named || name.starts_with("HOROVOD_") || name.starts_with("NCCL_")) {
      result.Set(name, value);
    }
  }
  return result;
}

}  // namespace hvdray
