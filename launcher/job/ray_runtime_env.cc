// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_runtime_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "base/yaml.h"
#include "base/yaml_writer.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

constexpr std::array<std::string_view, 14> kKeys = {
    "pip",           "uv",       "conda",   "env_vars",   "py_modules",
    "working_dir",   "excludes", "config",  "image_uri",  "container",
    "py_executable", "nsight",   "_nsight", "rocprof_sys"};
/// Each chooses Python's packages, so Ray accepts only one of them.
constexpr std::array<const char*, 3> kInstallers = {"pip", "uv", "conda"};
/// Ray starts workers in such an image and accepts only kBesideImage with it.
constexpr std::array<const char*, 2> kImages = {"image_uri", "container"};
constexpr std::array<std::string_view, 4> kBesideImage = {"image_uri", "container", "config",
                                                          "env_vars"};
constexpr std::array<std::string_view, 7> kSchemes = {"s3",    "gs",    "https", "http",
                                                      "azure", "abfss", "file"};
constexpr std::array<std::string_view, 5> kArchives = {".zip", ".tar.gz", ".tgz", ".tar.xz",
                                                       ".tar.bz2"};

Status Wrong(std::string text, std::string hint = {}) {
  return {ErrorCode::kUsage, std::move(text), std::move(hint)};
}

/// A variable's may be a password, and is a string anyway.
Status CheckNumbers(const YamlNode& root) {
  for (const YamlNode::Entry& entry : root.entries()) {
    if (entry.key != "env_vars") HVDRAY_RETURN_IF_ERROR(CheckIntegers(entry.value));
  }
  return {};
}

/// The value of a variable is a string, whatever it looks like.
Json FileToJson(const YamlNode& root) {
  Json env = YamlJson(root);
  const YamlNode* variables = root.Find("env_vars");
  if (variables == nullptr) return env;
  for (const YamlNode::Entry& entry : variables->entries()) {
    if (entry.value.kind() == YamlNode::Kind::kScalar) {
      env["env_vars"][entry.key] = entry.value.text();
    }
  }
  return env;
}

Result<std::string> ReadNamed(const std::string& key, const std::string& path,
                              const ReadTextFn& read) {
  HVDRAY_ASSIGN_OR_RETURN(std::optional<std::string> text, read(path));
  if (text) return *std::move(text);
  return Status(ErrorCode::kFileUnreadable, fmt::format("{}: no file {}", key, Quoted(path)));
}

Result<Json> ReadRequirements(const std::string& key, const std::string& path,
                              const ReadTextFn& read) {
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadNamed(key, path, read));
  Json lines = Json::array();
  for (const std::string_view line : LinesOf(text)) {
    // Leading blanks stay: they separate the words of a continued line.
    const size_t last = line.find_last_not_of(kBlankBytes);
    if (last != std::string_view::npos) lines.push_back(std::string(line.substr(0, last + 1)));
  }
  return lines;
}

bool IsStringList(const Json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); });
}

/// pip and uv: a list, a file of requirements, or an object with either as `packages`.
Status CompletePackages(const std::string& key, Json& value, const ReadTextFn& read) {
  Json* packages = &value;
  if (value.is_object()) {
    if (!value.contains("packages")) return Wrong(fmt::format("{} has no packages", key));
    packages = &value["packages"];
  }
  if (packages->is_string()) {
    HVDRAY_ASSIGN_OR_RETURN(*packages, ReadRequirements(key, packages->get<std::string>(), read));
  }
  if (IsStringList(*packages)) return {};
  return Wrong(
      fmt::format("{} must be a list of strings, or the path of a requirements file", key));
}

Status CompleteConda(Json& value, const ReadTextFn& read) {
  if (value.is_object()) return {};
  if (!value.is_string()) {
    return Wrong("conda must be an object, the name of an environment, or the path of a YAML file");
  }
  const std::string name = value.get<std::string>();
  if (!name.ends_with(".yaml") && !name.ends_with(".yml")) return {};
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadNamed("conda", name, read));
  HVDRAY_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, name));
  HVDRAY_RETURN_IF_ERROR(CheckIntegers(root));
  value = YamlJson(root);
  return value.is_object() ? Status()
                           : Wrong(fmt::format("conda: {} is not an environment", Quoted(name)));
}

Status CheckVariables(const Json& variables) {
  if (!variables.is_object()) return Wrong("env_vars must be an object with string values");
  for (const auto& [name, value] : variables.items()) {
    if (!value.is_string()) {
      return Wrong(fmt::format("env_vars: the value of {} must be a string", Quoted(name)));
    }
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
      return Wrong(fmt::format("env_vars: {} is not a valid variable name", Quoted(name)));
    }
  }
  return {};
}

Status CheckKeys(const Json& env) {
  if (!env.is_object()) return Wrong("it must be an object");
  for (const auto& [key, value] : env.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    const std::string nearest = Nearest(key, kKeys);
    return Wrong(fmt::format("unknown key {}", Quoted(key)),
                 nearest.empty() ? fmt::format("the known keys are {}", fmt::join(kKeys, ", "))
                                 : fmt::format("did you mean {}?", nearest));
  }
  const auto count = std::count_if(kInstallers.begin(), kInstallers.end(),
                                   [&env](const char* key) { return env.contains(key); });
  if (count > 1) return Wrong("use only one of pip, uv and conda");
  for (const char* image : kImages) {
    if (!env.contains(image)) continue;
    for (const auto& [key, value] : env.items()) {
      if (std::find(kBesideImage.begin(), kBesideImage.end(), key) != kBesideImage.end()) continue;
      return Wrong(fmt::format("Ray does not accept {} together with {}", key, image),
                   "install it in the image; --working-dir adds your files");
    }
  }
  return {};
}

Result<std::vector<std::string>> TakeStrings(Json& env, const char* key) {
  std::vector<std::string> texts;
  const auto found = env.find(key);
  if (found == env.end()) return texts;
  if (!IsStringList(*found)) return Wrong(fmt::format("{} must be a list of strings", key));
  for (const Json& item : *found) texts.push_back(item.get<std::string>());
  env.erase(key);
  return texts;
}

Result<RayRuntimeEnv> Complete(Json env, const ReadTextFn& read) {
  // To Ray, null means absent.
  for (const std::string_view key : kKeys) {
    const auto found = env.is_object() ? env.find(std::string(key)) : env.end();
    if (found != env.end() && found->is_null()) env.erase(found);
  }
  HVDRAY_RETURN_IF_ERROR(CheckKeys(env));
  if (env.contains("pip")) HVDRAY_RETURN_IF_ERROR(CompletePackages("pip", env["pip"], read));
  if (env.contains("uv")) HVDRAY_RETURN_IF_ERROR(CompletePackages("uv", env["uv"], read));
  if (env.contains("conda")) HVDRAY_RETURN_IF_ERROR(CompleteConda(env["conda"], read));
  if (env.contains("env_vars")) HVDRAY_RETURN_IF_ERROR(CheckVariables(env["env_vars"]));
  RayRuntimeEnv result;
  HVDRAY_ASSIGN_OR_RETURN(result.py_modules, TakeStrings(env, "py_modules"));
  HVDRAY_ASSIGN_OR_RETURN(result.excludes, TakeStrings(env, "excludes"));
  if (const auto found = env.find("working_dir"); found != env.end()) {
    if (!found->is_string()) return Wrong("working_dir must be a string");
    result.working_dir = found->get<std::string>();
    env.erase("working_dir");
  }
  result.actors = std::move(env);
  return result;
}

}  // namespace

Result<RayRuntimeEnv> ReadRuntimeEnv(std::string_view text, const ReadTextFn& read) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '{') {
    Result<Json> env = ParseJson(text);
    // Not the text itself: it may hold a password.
    if (!env.ok()) return Wrong(env.status().message());
    // JSON is YAML, too, and keeps its numbers there.
    if (const auto yaml = ParseYaml(text, "JSON"); yaml.ok()) {
      HVDRAY_RETURN_IF_ERROR(CheckNumbers(*yaml));
    }
    return Complete(std::move(env).value(), read);
  }
  const std::string path(text);
  HVDRAY_ASSIGN_OR_RETURN(std::optional<std::string> file, read(path));
  if (!file) return Wrong(fmt::format("no file {}", Quoted(path)), "give a YAML file, or JSON");
  HVDRAY_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(*file, path));
  HVDRAY_RETURN_IF_ERROR(CheckNumbers(root));
  Result<RayRuntimeEnv> env = Complete(FileToJson(root), read);
  if (env.ok()) return env;
  return std::move(env).status().WithContext(path);
}

std::string RuntimeEnvText(const RayRuntimeEnv& env) {
  Json whole = env.actors;
  if (!env.py_modules.empty()) whole["py_modules"] = env.py_modules;
  return whole.empty() ? std::string() : DumpJson(whole);
}

Result<RayRuntimeEnv> ParseRuntimeEnvText(std::string_view text) {
  RayRuntimeEnv env;
  if (text.empty()) return env;
  HVDRAY_ASSIGN_OR_RETURN(env.actors, ParseJson(text));
  if (!env.actors.is_object()) return Wrong("the runtime environment is not an object");
  HVDRAY_ASSIGN_OR_RETURN(env.py_modules, TakeStrings(env.actors, "py_modules"));
  return env;
}

Json ShownRuntimeEnv(std::string_view text) {
  Result<Json> env = ParseJson(text);
  if (!env.ok() || !env->is_object()) return nullptr;
  const auto variables = env->find("env_vars");
  if (variables != env->end() && variables->is_object()) {
    for (Json& value : *variables) value = "***";
  }
  return DumpJson(*env);
}

Status CheckRemoteDirectory(std::string_view uri) {
  const std::string_view scheme = uri.substr(0, uri.find("://"));
  if (std::find(kSchemes.begin(), kSchemes.end(), scheme) == kSchemes.end()) {
    return Wrong(
        fmt::format("Ray cannot fetch {}", Quoted(uri)),
        fmt::format("give a directory on this machine, or {}://", fmt::join(kSchemes, "://, ")));
  }
  const bool is_archive = std::any_of(kArchives.begin(), kArchives.end(),
                                      [uri](std::string_view end) { return uri.ends_with(end); });
  if (is_archive) return {};
  return Wrong(fmt::format("{} is not an archive", Quoted(uri)),
               fmt::format("Ray accepts {}", fmt::join(kArchives, ", ")));
}

}  // namespace hvdray
