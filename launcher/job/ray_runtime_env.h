// SPDX-License-Identifier: Apache-2.0
// A runtime environment of Ray's, as `ray job submit` takes it and a user writes it. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_RAY_RUNTIME_ENV_H_
#define HVDRAY_LAUNCHER_JOB_RAY_RUNTIME_ENV_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace hvdray {

struct RayRuntimeEnv {
  /// What Ray itself makes of the nodes: pip, uv, conda, env_vars, image_uri, config and the like.
  /// Files that it names on this machine (requirements.txt, environment.yml) are read in.
  Json actors = Json::object();
  std::vector<std::string> py_modules;  ///< Directories, wheels, URIs.
  std::string working_dir;
  std::vector<std::string> excludes;
};

/// The whole file; nullopt when there is none.
using ReadTextFn = std::function<Result<std::optional<std::string>>(const std::string& path)>;

/// `text`: JSON if it begins with '{', else the path of a YAML file. Errors: kUsage, kSpecInvalid,
/// kFileUnreadable; a key that is not known is named with the nearest one that is. No value of
/// env_vars is part of a message.
Result<RayRuntimeEnv> ReadRuntimeEnv(std::string_view text, const ReadTextFn& read);

/// Of `actors` and the modules, for a JobSpec; empty if both are. And back: never fails on what
/// RuntimeEnvText() made.
std::string RuntimeEnvText(const RayRuntimeEnv& env);
Result<RayRuntimeEnv> ParseRuntimeEnvText(std::string_view text);

/// The same without values that may be passwords.
Json ShownRuntimeEnv(std::string_view text);

/// Of an archive, "s3://...". Errors: kUsage: Ray can't fetch it.
Status CheckRemoteDirectory(std::string_view uri);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_RUNTIME_ENV_H_
