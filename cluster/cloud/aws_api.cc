// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_api.h"

#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kFormType = "application/x-www-form-urlencoded; charset=utf-8";
constexpr std::chrono::minutes kRenewBefore(5);
constexpr std::chrono::seconds kToldAbove(2);
constexpr int kMaxPages = 1000;

struct ServiceRow {
  AwsService service;
  std::string_view name, version, variable;
};

/// Source: the API references; the versions are those of all current SDKs.
constexpr ServiceRow kServices[] = {
    {AwsService::kEc2, "ec2", "2016-11-15", "AWS_ENDPOINT_URL_EC2"},
    {AwsService::kIam, "iam", "2010-05-08", "AWS_ENDPOINT_URL_IAM"},
    {AwsService::kSts, "sts", "2011-06-15", "AWS_ENDPOINT_URL_STS"},
    {AwsService::kSsm, "ssm", "", "AWS_ENDPOINT_URL_SSM"},
};

const ServiceRow& RowOf(AwsService service) { return kServices[static_cast<size_t>(service)]; }

AwsSigner SignerFor(const AwsEndpoint& endpoint, const AwsCredentials& from) {
  return {.region = endpoint.region,
          .service = endpoint.service,
          .access_key_id = from.access_key_id,
          .secret_access_key = from.secret_access_key.Copy(),
          .session_token = from.session_token.Copy()};
}

AwsRequest RequestTo(const AwsEndpoint& endpoint, std::string body, AwsSigner signer) {
  AwsRequest request;
  request.url = endpoint.url;
  request.headers = {{"Content-Type", std::string(kFormType)}};
  request.body = std::move(body);
  request.signer = std::move(signer);
  return request;
}

bool IsLost(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kHostUnreachable:
    case ErrorCode::kConnectTimeout:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kProtocolError:
    case ErrorCode::kHandshakeFailed:
      return true;
    default:
      return false;
  }
}

}  // namespace

AwsEndpoint ToAwsEndpoint(AwsService service, const std::string& region,
                          const Environment& environment) {
  const ServiceRow& row = RowOf(service);
  const bool is_china = region.starts_with("cn-");
  const bool is_government = region.starts_with("us-gov-");
  AwsEndpoint endpoint{.region = region, .service = std::string(row.name)};
  std::string host = fmt::format("{}.{}.amazonaws.com{}", row.name, region, is_china ? ".cn" : "");
  if (service == AwsService::kIam) {  // one for all regions of a partition
    endpoint.region = is_china ? "cn-north-1" : is_government ? "us-gov-west-1" : "us-east-1";
    host = is_china        ? "iam.cn-north-1.amazonaws.com.cn"
           : is_government ? "iam.us-gov.amazonaws.com"
                           : "iam.amazonaws.com";
  }
  endpoint.url = environment.GetOr(std::string(row.variable), "");
  if (endpoint.url.empty()) endpoint.url = environment.GetOr("AWS_ENDPOINT_URL", "");
  if (endpoint.url.empty()) endpoint.url = "https://" + host;
  while (endpoint.url.ends_with('/')) endpoint.url.pop_back();
  endpoint.url += '/';
  return endpoint;
}

AwsApi::AwsApi(AwsAccountFacts account, std::string region, Environment environment, AwsEdge edge,
               AwsRetryPolicy policy)
    : account_(std::move(account)),
      region_(std::move(region)),
      environment_(std::move(environment)),
      edge_(std::move(edge)),
      policy_(policy) {}

Result<AwsCredentials> AwsApi::AssumeRole(const AwsCredentialPlan& plan) {
  const AwsEndpoint endpoint = ToAwsEndpoint(AwsService::kSts, region_, environment_);
  AwsForm form = {{"Action", "AssumeRole"},
                  {"Version", std::string(RowOf(AwsService::kSts).version)},
                  {"RoleArn", plan.role_arn},
                  {"RoleSessionName", plan.session_name}};
  if (!plan.external_id.empty()) form.emplace_back("ExternalId", plan.external_id);
  Result<HttpReply> reply =
      edge_.send(RequestTo(endpoint, EncodeAwsForm(form), SignerFor(endpoint, plan.base)));
  if (!reply.ok()) return std::move(reply).status().WithContext("assume role " + plan.role_arn);
  if (reply->status != 200) {
    return AwsStatus("AssumeRole", reply->status, ParseAwsError(reply->body), plan.base.source);
  }
  HVDRAY_ASSIGN_OR_RETURN(const XmlElement root, ParseXml(reply->body));
  const XmlElement* found = root.Find("AssumeRoleResult/Credentials");
  if (found == nullptr) {
    return Status(ErrorCode::kProtocolError, "AssumeRole: the answer has no credentials");
  }
  AwsCredentials credentials;
  credentials.access_key_id = found->TextAt("AccessKeyId");
  credentials.secret_access_key = Secret(found->TextAt("SecretAccessKey"));
  credentials.session_token = Secret(found->TextAt("SessionToken"));
  credentials.expires = ParseAwsTime(found->TextAt("Expiration"));
  credentials.source = fmt::format("role {} through {}", plan.role_arn, plan.base.source);
  return credentials;
}

Result<AwsCredentials> AwsApi::FindCredentials() {
  HVDRAY_ASSIGN_OR_RETURN(AwsCredentialPlan plan, PlanAwsCredentials(account_, environment_));
  can_renew_ = plan.way != AwsCredentialPlan::Way::kStatic;
  switch (plan.way) {
    case AwsCredentialPlan::Way::kStatic:
      return std::move(plan.base);
    case AwsCredentialPlan::Way::kAssumeRole:
      return AssumeRole(plan);
    case AwsCredentialPlan::Way::kProcess:
      return RunForAwsCredentials(plan, edge_.run);
    case AwsCredentialPlan::Way::kContainer:
    case AwsCredentialPlan::Way::kMachine:
      return FetchAwsCredentials(plan.way, environment_, edge_.send);
  }
  return Status(ErrorCode::kInternal, "no way to credentials");
}

Result<AwsSigner> AwsApi::MakeSigner(const AwsEndpoint& endpoint, std::string& source) {
  const std::lock_guard lock(mutex_);
  const bool is_old = credentials_ && can_renew_ && credentials_->expires &&
                      *credentials_->expires - edge_.wall_now() < kRenewBefore;
  if (!credentials_ || is_old) {
    HVDRAY_ASSIGN_OR_RETURN(credentials_, FindCredentials());
  }
  source = credentials_->source;
  return SignerFor(endpoint, *credentials_);
}

Result<std::string> AwsApi::CredentialSource() {
  std::string source;
  HVDRAY_ASSIGN_OR_RETURN(const AwsSigner signer, MakeSigner({}, source));
  return source;
}

void AwsApi::ForgetCredentials() {
  const std::lock_guard lock(mutex_);
  if (can_renew_) credentials_.reset();
}

AwsAnswer AwsApi::CallOnce(const AwsEndpoint& endpoint, std::string_view action,
                           const std::string& body, AwsRepeat repeat) {
  AwsAnswer answer;
  std::string source;
  Result<AwsSigner> signer = MakeSigner(endpoint, source);
  if (!signer.ok()) {
    answer.status = std::move(signer).status();
    return answer;
  }
  AwsRequest request = RequestTo(endpoint, body, std::move(*signer));
  request.is_repeatable = repeat == AwsRepeat::kAlways;
  Result<HttpReply> reply = edge_.send(request);
  if (!reply.ok()) {
    const bool is_lost = IsLost(reply.status());
    const bool is_unknown = reply.status().code() == ErrorCode::kUnknownHost;
    answer.status = std::move(reply).status().WithContext(fmt::format("AWS {}", action));
    if (is_unknown) answer.status = std::move(answer.status).WithHint(AwsRegionHint(region_));
    if (is_lost) answer.fault = AwsFault::kServer;
    return answer;
  }
  if (reply->status >= 300) {
    const AwsError error = ParseAwsError(reply->body);
    answer.fault = ToAwsFault(reply->status, error);
    answer.status = AwsStatus(action, reply->status, error, source);
    answer.error_code = error.code;
    return answer;
  }
  Result<XmlElement> root = ParseXml(reply->body);
  if (root.ok()) {
    answer.root = std::move(*root);
  } else {
    answer.status = std::move(root).status().WithContext(fmt::format("AWS {}", action));
  }
  return answer;
}

/// Waits as the policy has it; false: don't repeat.
bool AwsApi::PauseBefore(const AwsAnswer& answer, std::string_view action, int attempts) {
  const std::optional<Duration> delay =
      AwsDelayBeforeNext(policy_, answer.fault, attempts, edge_.random());
  if (!delay) return false;
  if (edge_.note && *delay >= kToldAbove) {
    edge_.note(fmt::format("{}; trying {} again in {:.1f} s", answer.status.message(), action,
                           Seconds(*delay).count()));
  }
  return edge_.sleep(*delay);
}

AwsAnswer AwsApi::Call(AwsService service, std::string_view action, const AwsForm& form,
                       AwsRepeat repeat) {
  const AwsEndpoint endpoint = ToAwsEndpoint(service, region_, environment_);
  AwsForm whole = {{"Action", std::string(action)},
                   {"Version", std::string(RowOf(service).version)}};
  whole.insert(whole.end(), form.begin(), form.end());
  const std::string body = EncodeAwsForm(whole);
  bool has_renewed = false;
  for (int attempts = 1;; ++attempts) {
    AwsAnswer answer = CallOnce(endpoint, action, body, repeat);
    if (answer.ok()) return answer;
    if (answer.fault == AwsFault::kExpired && !std::exchange(has_renewed, true)) {
      // Served credentials may have been replaced a moment ago. Those of a file have not.
      ForgetCredentials();
      const std::lock_guard lock(mutex_);
      if (can_renew_) continue;
    }
    const bool is_unanswered = answer.error_code.empty();
    if (is_unanswered && repeat == AwsRepeat::kOnlyIfRefused) return answer;
    if (!PauseBefore(answer, action, attempts)) return answer;
  }
}

AwsAnswer AwsApi::CallPages(std::string_view action, const AwsForm& form,
                            const std::function<void(const XmlElement& page)>& take) {
  AwsForm page_form = form;
  for (int page = 0; page < kMaxPages; ++page) {
    AwsAnswer answer = Call(AwsService::kEc2, action, page_form);
    if (!answer.ok()) return answer;
    take(answer.root);
    const std::string& next = answer.root.TextAt("nextToken");
    if (next.empty()) return answer;
    page_form = form;
    page_form.emplace_back("NextToken", next);
  }
  AwsAnswer endless;
  endless.status = Status(ErrorCode::kProtocolError, fmt::format("AWS {}: endless pages", action));
  return endless;
}

Result<std::optional<std::string>> AwsApi::Parameter(const std::string& name) {
  const AwsEndpoint endpoint = ToAwsEndpoint(AwsService::kSsm, region_, environment_);
  for (int attempts = 1;; ++attempts) {
    std::string source;
    HVDRAY_ASSIGN_OR_RETURN(AwsSigner signer, MakeSigner(endpoint, source));
    AwsRequest request = RequestTo(endpoint, DumpJson(Json{{"Name", name}}), std::move(signer));
    request.headers = {{"Content-Type", "application/x-amz-json-1.1"},
                       {"X-Amz-Target", "AmazonSSM.GetParameter"}};
    AwsAnswer answer;
    const Result<HttpReply> reply = edge_.send(request);
    if (reply.ok() && reply->status == 200) {
      const Result<Json> json = ParseJson(reply->body);
      if (json.ok() && json->is_object() && json->contains("Parameter")) {
        const Json& parameter = (*json)["Parameter"];
        if (parameter.is_object() && parameter.contains("Value") &&
            parameter["Value"].is_string()) {
          return std::optional(parameter["Value"].get<std::string>());
        }
      }
      return std::optional<std::string>();
    }
    if (reply.ok()) {
      const AwsError error = ParseAwsError(reply->body);
      answer.fault = ToAwsFault(reply->status, error);
      answer.status = AwsStatus("GetParameter", reply->status, error, source);
      if (answer.fault == AwsFault::kNotFound || answer.fault == AwsFault::kDenied) {
        return std::optional<std::string>();
      }
    } else {
      answer.status = reply.status();
      if (IsLost(reply.status())) answer.fault = AwsFault::kServer;
    }
    if (!PauseBefore(answer, "GetParameter", attempts)) return answer.status;
  }
}

}  // namespace hvdray
