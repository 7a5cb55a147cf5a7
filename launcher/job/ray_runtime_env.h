// SPDX-License-Identifier: Apache-2.0
// Ray's runtime environment, as users write it for `ray job submit`. Pure.
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

/// A runtime environment, in the parts that hvdray treats differently.
struct RayRuntimeEnv {
  /// What Ray sets up on the nodes: pip, uv, conda, env_vars, image_uri, config and the like. Holds
  /// the contents of the local files that it names (requirements.txt, environment.yml).
  Json actors = Json::object();
  std::vector<std::string> py_modules;  ///< Directories, wheels, URIs.
  std::string working_dir;
  std::vector<std::string> excludes;
};

/// Returns the whole file; nullopt if it does not exist.
using ReadTextFn = std::function<Result<std::optional<std::string>>(const std::string& path)>;

/// `text`: JSON if it begins with '{', else the path of a YAML file. Errors: kUsage (an unknown key
/// with the nearest known one), kSpecInvalid, kFileUnreadable. No message contains a value of
/// env_vars.
Result<RayRuntimeEnv> ReadRuntimeEnv(std::string_view text, const ReadTextFn& read);

/// `actors` and `py_modules` as the JSON that a JobSpec holds; empty if both are.
/// ParseRuntimeEnvText() is the inverse: it fails (kUsage) only on text from elsewhere.
std::string RuntimeEnvText(const RayRuntimeEnv& env);
Result<RayRuntimeEnv> ParseRuntimeEnvText(std::string_view text);

/// The text for display: the values of env_vars, which may be passwords, are "***". Null for
/// anything but an object.
Json ShownRuntimeEnv(std::string_view text);

/// Checks the URI of a working directory ("s3://bucket/job.zip"). Errors: kUsage if Ray cannot
/// fetch it.
Status CheckRemoteDirectory(std::string_view uri);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_RUNTIME_ENV_H_
