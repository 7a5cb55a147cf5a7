// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_credentials.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/cloud/aws_errors.h"

namespace hvdray {
namespace {

constexpr size_t kMaxProfileBytes = size_t{1} << 20;
constexpr std::string_view kDefaultRegion = "us-west-2";
constexpr std::string_view kGivenKeys[] = {"aws_access_key_id", "aws_secret_access_key",
                                           "aws_session_token"};
std::string ValueOf(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::string() : found->second;
}

AwsCredentials Static(const std::string& id, const std::string& secret, const std::string& token,
                      std::string source) {
  AwsCredentials credentials;
  credentials.access_key_id = id;
  credentials.secret_access_key = Secret(secret);
  credentials.session_token = Secret(token);
  credentials.source = std::move(source);
  return credentials;
}

/// Of key, secret, and the session token's older and present name.
using PairNames = std::array<const char*, 4>;

/// The keys under `names` in `values`; nullopt: none of the pair is there.
Result<std::optional<AwsCredentials>> PairOf(const std::map<std::string, std::string>& values,
                                             const PairNames& names, const std::string& source) {
  const std::string id = ValueOf(values, names[0]);
  const std::string secret = ValueOf(values, names[1]);
  if (id.empty() && secret.empty()) return std::optional<AwsCredentials>();
  if (id.empty() || secret.empty()) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("{} of AWS is missing in {}", names[id.empty() ? 0 : 1], source),
                  fmt::format("{} and {} belong together", names[0], names[1]));
  }
  std::string token = ValueOf(values, names[2]);
  if (token.empty()) token = ValueOf(values, names[3]);
  return std::optional(Static(id, secret, token, source));
}

constexpr PairNames kFileNames = {"aws_access_key_id", "aws_secret_access_key",
                                  "aws_security_token", "aws_session_token"};
constexpr PairNames kVariableNames = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"};

/// The keys of a profile in both files; the credentials file wins.
std::map<std::string, std::string> ProfileOf(const AwsAccountFacts& facts,
                                             const std::string& name) {
  std::map<std::string, std::string> keys;
  if (const auto found = facts.credentials.find(name); found != facts.credentials.end()) {
    keys = found->second;
  }
  if (const auto found = facts.config.find(name); found != facts.config.end()) {
    keys.insert(found->second.begin(), found->second.end());
  }
  return keys;
}

/// The command that puts profile `name`'s credentials into the environment. Only at a terminal can
/// the CLI ask for a code.
std::string ExportLine(const std::string& name) {
  return fmt::format("eval \"$(aws configure export-credentials --profile {} --format env)\"",
                     ShownText(name));
}

std::string LoginHint(const std::string& name) {
  return fmt::format("for single sign-on: aws sso login --profile {}", ShownText(name));
}

/// What only the AWS CLI can do for profile `name`. `hint`: where it fails.
AwsCredentialPlan ByCli(const std::string& name, std::string_view what, std::string hint = "") {
  AwsCredentialPlan plan;
  plan.way = AwsCredentialPlan::Way::kProcess;
  plan.command = {"aws",      "configure", "export-credentials", "--profile", name,
                  "--format", "process"};
  plan.source = fmt::format("`aws configure export-credentials` for profile {}", ShownText(name));
  plan.without_cli = {
      ErrorCode::kNotSupported,
      fmt::format("AWS profile {} uses {}, and there is no AWS CLI here", ShownText(name), what),
      "install it, or run where it is: " + ExportLine(name)};
  plan.cli_hint = hint.empty() ? "try it by hand: " + ExportLine(name) : std::move(hint);
  return plan;
}

bool UsesSingleSignOn(const std::map<std::string, std::string>& keys) {
  return !ValueOf(keys, "sso_session").empty() || !ValueOf(keys, "sso_start_url").empty();
}

/// Who assumes the role of profile `name`, whose keys are `keys`.
Result<AwsCredentialPlan> PlanRole(const AwsAccountFacts& facts, const std::string& name,
                                   const std::map<std::string, std::string>& keys) {
  AwsCredentialPlan plan;
  plan.way = AwsCredentialPlan::Way::kAssumeRole;
  plan.role_arn = ValueOf(keys, "role_arn");
  plan.external_id = ValueOf(keys, "external_id");
  plan.session_name = ValueOf(keys, "role_session_name");
  if (plan.session_name.empty()) plan.session_name = "hvdray";
  if (!ValueOf(keys, "mfa_serial").empty()) {
    return ByCli(name, "a second factor (mfa_serial)",
                 "enter the code of mfa_serial beforehand: " + ExportLine(name));
  }
  if (!ValueOf(keys, "web_identity_token_file").empty()) return ByCli(name, "a web identity");
  const std::string source = ValueOf(keys, "source_profile");
  if (source.empty()) return ByCli(name, "role_arn without source_profile");
  const std::map<std::string, std::string> source_keys = ProfileOf(facts, source);
  HVDRAY_ASSIGN_OR_RETURN(std::optional<AwsCredentials> base,
                          PairOf(source_keys, kFileNames,
                                 fmt::format("profile {} of {}", source, facts.credentials_path)));
  if (!base && (UsesSingleSignOn(source_keys) || !ValueOf(source_keys, "role_arn").empty() ||
                !ValueOf(source_keys, "credential_process").empty())) {
    return ByCli(name, "a source_profile without an access key",
                 UsesSingleSignOn(source_keys) ? LoginHint(source) : "");
  }
  if (!base) {
    return Status(
        ErrorCode::kSpecInvalid,
        fmt::format("AWS profile {}, source_profile of {}, has no access key", source, name));
  }
  plan.base = *std::move(base);
  return plan;
}

/// nullopt: the profile has no credentials.
Result<std::optional<AwsCredentialPlan>> PlanProfile(const AwsAccountFacts& facts) {
  const std::string& name = facts.profile;
  const std::map<std::string, std::string> keys = ProfileOf(facts, name);
  if (keys.empty() && facts.is_profile_named && !facts.credentials.contains(name) &&
      !facts.config.contains(name)) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("AWS_PROFILE is {}, which is in neither {} nor {}", ShownText(name),
                              facts.credentials_path, facts.config_path));
  }
  if (!ValueOf(keys, "role_arn").empty()) {
    HVDRAY_ASSIGN_OR_RETURN(AwsCredentialPlan plan, PlanRole(facts, name, keys));
    return std::optional(std::move(plan));
  }
  // As in botocore, the process goes before a key in the config file.
  const std::string command = ValueOf(keys, "credential_process");
  const auto secrets = facts.credentials.find(name);
  const bool has_secrets = secrets != facts.credentials.end();
  const bool is_process =
      !command.empty() && !(has_secrets && secrets->second.contains(kFileNames[0]));
  const std::string& path = has_secrets ? facts.credentials_path : facts.config_path;
  HVDRAY_ASSIGN_OR_RETURN(std::optional<AwsCredentials> found,
                          PairOf(keys, kFileNames, fmt::format("profile {} of {}", name, path)));
  if (found && !is_process) {
    AwsCredentialPlan plan;
    plan.way = AwsCredentialPlan::Way::kStatic;
    plan.base = *std::move(found);
    return std::optional(std::move(plan));
  }
  if (UsesSingleSignOn(keys)) {
    return std::optional(ByCli(name, "single sign-on", LoginHint(name)));
  }
  if (!is_process) return std::optional<AwsCredentialPlan>();
  AwsCredentialPlan plan;
  plan.way = AwsCredentialPlan::Way::kProcess;
  plan.command = {"/bin/sh", "-c", command};
  plan.source = fmt::format("credential_process of AWS profile {}", ShownText(name));
  return std::optional(std::move(plan));
}

/// A missing file is an empty one, as for AWS's own tools.
Result<AwsProfiles> ReadProfiles(const std::string& path, AwsFile file) {
  struct ::stat entry {};
  if (::stat(path.c_str(), &entry) != 0) return AwsProfiles();
  HVDRAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxProfileBytes));
  return ParseAwsProfiles(text, file, path);
}

constexpr std::chrono::seconds kServiceTimeout(1);

AwsRequest ServiceRequest(std::string method, std::string url) {
  AwsRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.may_use_proxy = false;
  request.connect_timeout = kServiceTimeout;
  request.timeout = 5 * kServiceTimeout;
  request.max_body_bytes = size_t{64} << 10;
  return request;
}

Status NoCredentials(const Environment& environment) {
  return {ErrorCode::kCloudDenied, "no AWS credentials found",
          fmt::format("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`; "
                      "sought in the cluster file, the environment, {} and the machine's "
                      "metadata service",
                      environment.GetOr("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))};
}

Result<AwsCredentials> FetchFromContainer(const Environment& environment, const AwsSend& send) {
  std::string url = environment.GetOr("AWS_CONTAINER_CREDENTIALS_FULL_URI", "");
  const std::string relative = environment.GetOr("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "");
  if (!relative.empty()) url = "http://169.254.170.2" + relative;
  AwsRequest request = ServiceRequest("GET", url);
  std::string token = environment.GetOr("AWS_CONTAINER_AUTHORIZATION_TOKEN", "");
  const std::string token_file = environment.GetOr("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "");
  if (!token_file.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(token, ReadFile(token_file, kMaxProfileBytes));
    token = std::string(Trimmed(token));
  }
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  Result<HttpReply> reply = send(request);
  if (!reply.ok()) return std::move(reply).status().WithContext("ask the container's credentials");
  if (reply->status != 200) {
    return Status(
        ErrorCode::kCloudDenied,
        fmt::format("the container's credential service answered HTTP {}", reply->status));
  }
  return ParseServedCredentials(reply->body, "the container's credential service");
}

/// IMDSv2: a token first, then the role's name, then its credentials.
Result<AwsCredentials> FetchFromMachine(const Environment& environment, const AwsSend& send) {
  if (Lower(environment.GetOr("AWS_EC2_METADATA_DISABLED", "")) == "true") {
    return NoCredentials(environment);
  }
  std::string base =
      environment.GetOr("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254");
  while (base.ends_with('/')) base.pop_back();
  AwsRequest request = ServiceRequest("PUT", base + "/latest/api/token");
  request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  Result<HttpReply> token = send(request);
  if (!token.ok() && token.status().code() == ErrorCode::kCancelled) {
    return std::move(token).status();
  }
  // No such service: this machine is not in EC2.
  if (!token.ok() || token->status != 200) return NoCredentials(environment);

  const std::string list = base + "/latest/meta-data/iam/security-credentials/";
  request = ServiceRequest("GET", list);
  request.headers = {{"X-aws-ec2-metadata-token", std::string(Trimmed(token->body))}};
  HVDRAY_ASSIGN_OR_RETURN(const HttpReply roles, send(request));
  const std::string role(Trimmed(roles.body.substr(0, roles.body.find('\n'))));
  if (roles.status != 200 || role.empty()) {
    return Status(ErrorCode::kCloudDenied, "this EC2 instance has no instance profile",
                  "attach one, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  }
  request.url = list + role;
  HVDRAY_ASSIGN_OR_RETURN(const HttpReply reply, send(request));
  if (reply.status != 200) {
    return Status(ErrorCode::kCloudDenied,
                  fmt::format("the metadata service answered HTTP {} for role {}", reply.status,
                              ShownText(role)));
  }
  return ParseServedCredentials(reply.body, fmt::format("the instance's role {}", ShownText(role)));
}

}  // namespace

Result<AwsProfiles> ParseAwsProfiles(std::string_view text, AwsFile file, const std::string& name) {
  if (text.size() > kMaxProfileBytes) {
    return Status(ErrorCode::kSpecInvalid, fmt::format("{}: larger than 1 MiB", name));
  }
  AwsProfiles profiles;
  std::map<std::string, std::string>* section = nullptr;
  bool is_skipped = false;
  constexpr size_t kNoKey = std::string_view::npos;
  size_t indent = kNoKey;  // of the last key of this section
  int number = 0;
  for (const std::string_view raw : LinesOf(text)) {
    ++number;
    const std::string_view line = Trimmed(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    const auto fault = [&](std::string_view what) {
      return Status(ErrorCode::kSpecInvalid, fmt::format("{}:{}: {}", name, number, what),
                    "lines are [profile], key = value, or a comment after #");
    };
    const size_t own_indent = raw.find_first_not_of(kBlankBytes);
    if (section != nullptr && own_indent > indent) continue;  // belongs to that key
    if (line[0] == '[') {
      indent = kNoKey;
      const size_t close = line.find(']');
      if (close == std::string_view::npos) return fault("a section without ]");
      std::string_view title = Trimmed(line.substr(1, close - 1));
      is_skipped = false;
      if (file == AwsFile::kConfig && title != "default") {
        constexpr std::string_view kProfile = "profile";
        is_skipped = !title.starts_with(kProfile) || title.size() == kProfile.size() ||
                     kBlankBytes.find(title[kProfile.size()]) == std::string_view::npos;
        if (!is_skipped) title = Trimmed(Trimmed(title.substr(kProfile.size())), "\"'");
      }
      section = is_skipped ? nullptr : &profiles[std::string(title)];
      // As in botocore: of [default] and [profile default] the last one counts, alone.
      if (section != nullptr && title == "default") section->clear();
      continue;
    }
    if (is_skipped) continue;
    indent = own_indent;
    const size_t equals = line.find_first_of("=:");
    if (equals == std::string_view::npos || equals == 0)
      return fault("neither a section nor a key");
    if (section == nullptr) return fault("a key outside of any section");
    (*section)[Lower(Trimmed(line.substr(0, equals)))] = Trimmed(line.substr(equals + 1));
  }
  return profiles;
}

Result<AwsCredentialPlan> PlanAwsCredentials(const AwsAccountFacts& facts,
                                             const Environment& environment) {
  AwsCredentialPlan plan;
  plan.way = AwsCredentialPlan::Way::kStatic;
  for (const auto& [key, value] : facts.given) {
    if (std::ranges::find(kGivenKeys, key) != std::end(kGivenKeys)) continue;
    const std::string nearest = Nearest(key.substr(0, 80), kGivenKeys);
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("provider.aws_credentials: '{}' is not supported", ShownText(key)),
                  nearest.empty() ? fmt::format("keys are {}", fmt::join(kGivenKeys, ", "))
                                  : fmt::format("did you mean {}?", nearest));
  }
  HVDRAY_ASSIGN_OR_RETURN(std::optional<AwsCredentials> found,
                          PairOf(facts.given, kFileNames, "provider.aws_credentials"));
  // As in botocore, a secret alone says nothing.
  if (!found && !environment.GetOr(kVariableNames[0], "").empty()) {
    HVDRAY_ASSIGN_OR_RETURN(found, PairOf(environment.values(), kVariableNames, "the environment"));
  }
  if (found) {
    plan.base = *std::move(found);
    return plan;
  }
  HVDRAY_ASSIGN_OR_RETURN(std::optional<AwsCredentialPlan> of_profile, PlanProfile(facts));
  if (of_profile) return *std::move(of_profile);
  const bool is_container =
      !environment.GetOr("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "").empty() ||
      !environment.GetOr("AWS_CONTAINER_CREDENTIALS_FULL_URI", "").empty();
  plan.way = is_container ? AwsCredentialPlan::Way::kContainer : AwsCredentialPlan::Way::kMachine;
  return plan;
}

Result<std::string> ChooseAwsRegion(const std::string& given, const AwsAccountFacts& facts,
                                    const Environment& environment) {
  std::string region = given;
  std::string origin = "provider.region";
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (!region.empty()) break;
    region = environment.GetOr(name, "");
    origin = name;
  }
  if (region.empty()) {
    region = ValueOf(ProfileOf(facts, facts.profile), "region");
    origin = "region of the AWS profile " + facts.profile;
  }
  if (region.empty()) return std::string(kDefaultRegion);
  if (IsAwsRegionName(region)) return region;
  return Status(ErrorCode::kSpecInvalid,
                fmt::format("{} '{}' is not a region", origin, ShownText(region)),
                AwsRegionHint(Lower(region)));
}

Result<AwsCredentials> ParseServedCredentials(ByteView body, std::string source) {
  constexpr size_t kLimit = size_t{64} << 10;
  const auto fault = [&source](std::string_view what) {
    return Status(ErrorCode::kProtocolError, fmt::format("{}: {}", source, what));
  };
  const Result<Json> json = ParseJson(body, kLimit);
  if (!json.ok() || !json->is_object()) return fault("the answer is not a JSON object");
  const auto text = [&json](const char* key) {
    const auto found = json->find(key);
    return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string code = text("Code");
  if (!code.empty() && code != "Success") return fault(ShownText(code));
  if (text("AccessKeyId").empty() || text("SecretAccessKey").empty()) {
    return fault("the answer has no access key");
  }
  // A process calls it SessionToken.
  const std::string token = text("Token").empty() ? text("SessionToken") : text("Token");
  AwsCredentials credentials =
      Static(text("AccessKeyId"), text("SecretAccessKey"), token, std::move(source));
  credentials.expires = ParseAwsTime(text("Expiration"));
  return credentials;
}

std::optional<WallTime> ParseAwsTime(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  std::string_view zone(rest);
  if (zone.starts_with('.')) {
    zone.remove_prefix(1);
    while (!zone.empty() && IsAllDigits(zone.substr(0, 1))) zone.remove_prefix(1);
  }
  if (zone != "Z" && zone != "+00:00") return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

Result<AwsAccountFacts> ReadAwsAccount(std::map<std::string, std::string> given,
                                       const Environment& environment) {
  AwsAccountFacts facts;
  facts.given = std::move(given);
  // In botocore's order, which is Ray's.
  std::string profile = environment.GetOr("AWS_DEFAULT_PROFILE", "");
  if (profile.empty()) profile = environment.GetOr("AWS_PROFILE", "");
  facts.is_profile_named = !profile.empty();
  if (facts.is_profile_named) facts.profile = profile;
  const std::string home = environment.GetOr("HOME", "/root");
  facts.credentials_path =
      ExpandedHome(environment.GetOr("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), home);
  facts.config_path = ExpandedHome(environment.GetOr("AWS_CONFIG_FILE", "~/.aws/config"), home);
  HVDRAY_ASSIGN_OR_RETURN(facts.credentials,
                          ReadProfiles(facts.credentials_path, AwsFile::kCredentials));
  HVDRAY_ASSIGN_OR_RETURN(facts.config, ReadProfiles(facts.config_path, AwsFile::kConfig));
  return facts;
}

Result<AwsCredentials> RunForAwsCredentials(const AwsCredentialPlan& plan, const AwsRun& run) {
  const Result<AwsCommandEnd> end = run(plan.command);
  const bool is_cli = !plan.without_cli.ok();
  if (!end.ok() && is_cli && end.status().code() == ErrorCode::kAgentStartFailed) {
    return plan.without_cli;
  }
  if (!end.ok()) return Status(end.status()).WithContext(plan.source).WithHint(plan.cli_hint);
  if (end->exit_code != 0) {
    return Status(ErrorCode::kCloudDenied,
                  fmt::format("{} exited with code {}{}{}", plan.source, end->exit_code,
                              end->last_words.empty() ? "" : ": ", ShownText(end->last_words)),
                  plan.cli_hint);
  }
  return ParseServedCredentials(end->output.view(), plan.source);
}

Result<AwsCredentials> FetchAwsCredentials(AwsCredentialPlan::Way way,
                                           const Environment& environment, const AwsSend& send) {
  return way == AwsCredentialPlan::Way::kContainer ? FetchFromContainer(environment, send)
                                                   : FetchFromMachine(environment, send);
}

}  // namespace hvdray
