// SPDX-License-Identifier: Apache-2.0
// Where AWS's credentials and region come from: the cluster file, the environment, the files that
// AWS's own tools share, or the machine that this runs on. Pure but for what blocks.
#ifndef HVDRAY_CLUSTER_CLOUD_AWS_CREDENTIALS_H_
#define HVDRAY_CLUSTER_CLOUD_AWS_CREDENTIALS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/secret.h"
#include "cluster/cloud/aws_http.h"

namespace hvdray {

/// Who a request is from. Move-only, as its secrets are.
struct AwsCredentials {
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;             ///< Empty: long-term credentials.
  std::optional<WallTime> expires;  ///< nullopt: never, or unknown.
  std::string source;  ///< For messages: "the environment", "profile dev of ~/.aws/credentials".
};

/// Sections of a file of AWS's tools by name, each with its keys.
using AwsProfiles = std::map<std::string, std::map<std::string, std::string>>;

/// Which of the two files: in `config`, sections are called "profile NAME".
enum class AwsFile : uint8_t { kCredentials, kConfig };

/// Keys are lower-case; values keep their inner blanks. Nested keys (indented lines) are skipped,
/// and so are sections of other kinds (sso-session, services). The last of duplicate keys wins.
/// `name`: for messages, which never show a value.
/// Errors: kSpecInvalid with name:line for a line that is no section, key or comment; more than
/// 1 MiB.
Result<AwsProfiles> ParseAwsProfiles(std::string_view text, AwsFile file, const std::string& name);

/// What decides where credentials come from.
struct AwsAccountFacts {
  std::map<std::string, std::string> given;  ///< provider.aws_credentials of the cluster file.
  std::string profile = "default";           ///< AWS_PROFILE.
  bool is_profile_named = false;             ///< By AWS_PROFILE: it must exist.
  AwsProfiles credentials, config;           ///< Of both files, empty if they are missing.
  std::string credentials_path, config_path;
};

/// How to get at them.
struct AwsCredentialPlan {
  enum class Way : uint8_t { kStatic, kAssumeRole, kProcess, kContainer, kMachine };
  Way way = Way::kMachine;
  AwsCredentials base;  ///< kStatic: these; kAssumeRole: who assumes the role.
  std::string role_arn, session_name, external_id;  ///< kAssumeRole
  std::vector<std::string> command;  ///< kProcess: prints credentials as credential_process does.
  std::string source;                ///< kProcess: as in AwsCredentials.
  /// kProcess through the AWS CLI: what its absence means. ok: a command of the profile's own.
  Status without_cli;
  std::string cli_hint;  ///< What to do where the AWS CLI fails.
};

/// How a command ended.
struct AwsCommandEnd {
  int exit_code = 0;
  Secret output;
  std::string last_words;  ///< The last line of its stderr.
};

/// Runs a command without stdin. Blocks. Errors: kAgentStartFailed when it can't be executed,
/// kDeadlineExceeded, kSystem.
using AwsRun = std::function<Result<AwsCommandEnd>(const std::vector<std::string>& command)>;

/// In the order of AWS's SDKs: the cluster file, the environment, both files, the container, the
/// machine. A profile with single sign-on, a second factor or the like is left to the AWS CLI.
/// Errors: kSpecInvalid (half a key pair, unknown key of aws_credentials, unknown profile).
Result<AwsCredentialPlan> PlanAwsCredentials(const AwsAccountFacts& facts,
                                             const Environment& environment);

/// provider.region, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, else us-west-2 as in Ray.
/// Errors: kSpecInvalid for what can't be a region.
Result<std::string> ChooseAwsRegion(const std::string& given, const AwsAccountFacts& facts,
                                    const Environment& environment);

/// The JSON of a container's or machine's credential service. `source` as in AwsCredentials.
/// Errors: kProtocolError.
Result<AwsCredentials> ParseServedCredentials(ByteView body, std::string source);

/// "2026-11-24T05:20:00Z"; nullopt: not such a time.
std::optional<WallTime> ParseAwsTime(std::string_view text);

/// Reads AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, or ~/.aws/credentials and ~/.aws/config.
/// Blocks. Errors: kFileUnreadable for a file that is there or named, kSpecInvalid.
Result<AwsAccountFacts> ReadAwsAccount(std::map<std::string, std::string> given,
                                       const Environment& environment);

/// Runs the command of a kProcess by `run`. Blocks. Errors: plan.without_cli where there is no AWS
/// CLI; kCloudDenied when the command fails; kProtocolError; those of `run`. No message has its
/// output.
Result<AwsCredentials> RunForAwsCredentials(const AwsCredentialPlan& plan, const AwsRun& run);

/// Sends one request; see AwsHttp::Send().
using AwsSend = std::function<Result<HttpReply>(const AwsRequest&)>;

/// Asks the container's service or the machine's (IMDSv2) for credentials. Blocks; where there is
/// no such service, for about a second. `way`: kContainer or kMachine.
/// Errors: kCloudDenied: no credentials found, and where they were sought;
/// kProtocolError; kCancelled.
Result<AwsCredentials> FetchAwsCredentials(AwsCredentialPlan::Way way,
                                           const Environment& environment, const AwsSend& send);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_AWS_CREDENTIALS_H_
