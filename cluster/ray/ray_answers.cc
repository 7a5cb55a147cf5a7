// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{64} << 20;
constexpr size_t kMaxDemands = 100000;

Status Wrong(std::string_view what) { return {ErrorCode::kProtocolError, std::string(what)}; }

Result<Json> ParseObject(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(Json json, ParseJson(body, kMaxAnswerBytes));
  if (!json.is_object()) return Wrong("not a JSON object");
  return json;
}

/// nullptr for a key that is missing or null: the dashboard means the same by both.
const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string Text(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

/// 0 for anything but a finite number.
double Number(const Json& value) {
  if (!value.is_number()) return 0;
  const auto number = value.get<double>();
  return std::isfinite(number) ? number : 0;
}

int CountOf(const Json& value) {
  return static_cast<int>(std::clamp(Number(value), 0.0, static_cast<double>(INT_MAX)));
}

int64_t Milliseconds(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  if (value == nullptr) return 0;
  return static_cast<int64_t>(std::clamp(Number(*value), 0.0, 1e15));
}

RayAmounts Resources(const Json* object) {
  RayAmounts resources;
  if (object == nullptr || !object->is_object()) return resources;
  for (const auto& [name, amount] : object->items()) resources[name] = Number(amount);
  return resources;
}

std::map<std::string, std::string> Texts(const Json* object) {
  std::map<std::string, std::string> texts;
  if (object == nullptr || !object->is_object()) return texts;
  for (const auto& [name, text] : object->items()) {
    if (text.is_string()) texts[name] = text.get<std::string>();
  }
  return texts;
}

/// {"CPU": [used, total], ...}
RayUsage Usage(const Json* object) {
  RayUsage usage;
  if (object == nullptr || !object->is_object()) return usage;
  for (const auto& [name, pair] : object->items()) {
    if (!pair.is_array() || pair.size() != 2) continue;
    usage[name] = {.used = Number(pair[0]), .total = Number(pair[1])};
  }
  return usage;
}

/// Parses "1.5" or "2.00GiB" (which the dashboard has rounded); nullopt: neither.
std::optional<double> AmountOfText(std::string_view text) {
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc() || !std::isfinite(amount)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.empty() || text == "B") return amount;
  constexpr double kRounding = 0.005;
  double unit = 1024;
  for (const std::string_view suffix : {"KiB", "MiB", "GiB", "TiB"}) {
    if (text == suffix) return (amount + kRounding) * unit;
    unit *= 1024;
  }
  return std::nullopt;
}

/// "<amount>/<amount>" or "<amount> used of <amount>".
std::optional<RayUse> PairOfText(std::string_view text, std::string_view divider) {
  const size_t at = text.find(divider);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<double> used = AmountOfText(text.substr(0, at));
  const std::optional<double> total = AmountOfText(text.substr(at + divider.size()));
  if (!used || !total) return std::nullopt;
  return RayUse{.used = *used, .total = *total};
}

/// Parses lines such as "2.0/4.0 CPU (1.0 used of 2.5 reserved in placement groups)". The first
/// figure counts what placement groups use, not what they reserve.
RayUsage UsageOfLines(std::string_view lines) {
  constexpr std::string_view kGroups = " reserved in placement groups)";
  RayUsage usage;
  for (std::string_view line : LinesOf(lines)) {
    RayUse in_groups;
    const size_t bracket = line.rfind(" (");
    if (line.ends_with(kGroups) && bracket != std::string_view::npos) {
      std::string_view pair = line.substr(bracket + 2);
      pair.remove_suffix(kGroups.size());
      in_groups = PairOfText(pair, " used of ").value_or(RayUse());
      line = line.substr(0, bracket);
    }
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    std::optional<RayUse> use = PairOfText(line.substr(0, blank), "/");
    if (!use) continue;
    use->used += std::max(in_groups.total - in_groups.used, 0.0);
    usage[std::string(line.substr(blank + 1))] = *use;
  }
  return usage;
}

/// The rows of a /api/v0 listing: {"result": true, "data": {"result": {"result": [...]}}}.
Result<std::vector<Json>> Rows(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json* data = Find(json, "data");
  const Json* outer = data == nullptr ? nullptr : Find(*data, "result");
  const Json* rows = outer == nullptr ? nullptr : Find(*outer, "result");
  if (rows == nullptr || !rows->is_array()) {
    const std::string said = Text(json, "msg");
    return Wrong(said.empty() ? "a listing without rows" : ShownText(said, 300));
  }
  std::vector<Json> found;
  for (const Json& row : *rows) {
    if (!row.is_object()) return Wrong("a listing with a row that is not an object");
    found.push_back(row);
  }
  return found;
}

/// [[{...bundle...}, count], ...]
std::vector<std::pair<RayAmounts, int>> CountedBundles(const Json* list) {
  std::vector<std::pair<RayAmounts, int>> bundles;
  if (list == nullptr || !list->is_array()) return bundles;
  for (const Json& pair : *list) {
    if (bundles.size() >= kMaxDemands) break;
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_object()) continue;
    bundles.emplace_back(Resources(&pair[0]), CountOf(pair[1]));
  }
  return bundles;
}

void AppendDemands(const Json& report, std::vector<RayDemand>& demands) {
  if (const Json* groups = Find(report, "pgDemand"); groups != nullptr && groups->is_array()) {
    for (const Json& pair : *groups) {
      if (demands.size() >= kMaxDemands) return;
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_object()) continue;
      demands.push_back({.bundles = CountedBundles(Find(pair[0], "bundles")),
                         .strategy = Text(pair[0], "strategy"),
                         .count = CountOf(pair[1])});
    }
  }
  for (auto& [bundle, count] : CountedBundles(Find(report, "resourceDemand"))) {
    demands.push_back({.bundles = {{std::move(bundle), 1}}, .strategy = "", .count = count});
  }
}

/// [[ip, type, status], ...]; a failed one has no status.
std::vector<RayPendingNode> PendingNodes(const Json* list) {
  std::vector<RayPendingNode> nodes;
  if (list == nullptr || !list->is_array()) return nodes;
  for (const Json& row : *list) {
    if (!row.is_array() || row.size() < 2 || nodes.size() >= kMaxDemands) continue;
    const auto word = [&row](size_t at) {
      return at < row.size() && row[at].is_string() ? row[at].get<std::string>() : std::string();
    };
    nodes.push_back({.ip = word(0), .type = word(1), .status = word(2)});
  }
  return nodes;
}

/// An autoscaler that only observes names the type of each node after the node's id.
bool AddsNodes(const Json& report) {
  const Json* types = Find(report, "nodeTypeMapping");
  if (types == nullptr || !types->is_object()) {
    // Only the camel-cased types are available then: "nodeBdcef4…", 4 + 56 characters.
    const Json* active = Find(report, "activeNodes");
    if (active == nullptr || !active->is_object()) return true;
    return std::ranges::any_of(active->items(), [](const auto& item) {
      return !(item.key().starts_with("node") && item.key().size() == 60);
    });
  }
  return std::ranges::any_of(types->items(), [](const auto& item) {
    return !item.value().is_string() ||
           item.value().template get<std::string>() != "node_" + item.key();
  });
}

RayAutoscaler Autoscaler(const Json& report) {
  RayAutoscaler autoscaler;
  autoscaler.adds_nodes = AddsNodes(report);
  autoscaler.pending = PendingNodes(Find(report, "pendingNodes"));
  autoscaler.failed = PendingNodes(Find(report, "failedNodes"));
  if (const Json* launches = Find(report, "pendingLaunches");
      launches != nullptr && launches->is_object()) {
    for (const auto& [type, count] : launches->items()) autoscaler.launching[type] = CountOf(count);
  }
  return autoscaler;
}

RayJobStatus JobStatus(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, RayJobStatus>, 5> kWords = {{
      {"PENDING", RayJobStatus::kPending},
      {"RUNNING", RayJobStatus::kRunning},
      {"SUCCEEDED", RayJobStatus::kSucceeded},
      {"FAILED", RayJobStatus::kFailed},
      {"STOPPED", RayJobStatus::kStopped},
  }};
  for (const auto& [word, status] : kWords) {
    if (word == text) return status;
  }
  return RayJobStatus::kUnknown;
}

Result<RayJob> JobOf(const Json& json) {
  RayJob job;
  job.submission_id = Text(json, "submission_id");
  job.job_id = Text(json, "job_id");
  job.status_text = Text(json, "status");
  job.status = JobStatus(job.status_text);
  if (job.status_text.empty()) return Wrong("a job without status");
  job.entrypoint = Text(json, "entrypoint");
  job.message = Text(json, "message");
  job.error_type = Text(json, "error_type");
  job.metadata = Texts(Find(json, "metadata"));
  // A job of hvdray's runs its agent; people know it by the command of its workers.
  if (const auto command = job.metadata.find(kRayCommandKey); command != job.metadata.end()) {
    job.entrypoint = command->second;
  }
  job.driver_node_id = Text(json, "driver_node_id");
  if (const Json* code = Find(json, "driver_exit_code"); code != nullptr && code->is_number()) {
    job.driver_exit_code = static_cast<int>(std::clamp(Number(*code), -1e6, 1e6));
  }
  job.start_ms = Milliseconds(json, "start_time");
  job.end_ms = Milliseconds(json, "end_time");
  return job;
}

Json ObjectOf(const std::map<std::string, std::string>& texts) {
  Json object = Json::object();
  for (const auto& [name, text] : texts) object[name] = text;
  return object;
}

constexpr size_t kShownBytes = 300;
constexpr size_t kShortestMaskedToken = 6;  // masking "ray" would hide the word in every message
constexpr std::string_view kWhereDashboard =
    "the dashboard listens on port 8265 of the head; without --dashboard-host, only on its "
    "loopback: ssh -L 8265:127.0.0.1:8265 HEAD";
constexpr std::string_view kWhereToken =
    "put the cluster's token into RAY_AUTH_TOKEN, a file named by RAY_AUTH_TOKEN_PATH, or "
    "~/.ray/auth_token; `ray get-auth-token` on the head prints it";

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool IsPage(const HttpReply& reply) {
  const size_t begin = reply.body.find_first_not_of(" \t\r\n");
  return reply.content_type.starts_with("text/html") ||
         (begin != std::string::npos && reply.body[begin] == '<');
}

/// "answers 500: KeyError: 'x'"
std::string Said(const HttpReply& reply) {
  const std::string line = IsPage(reply) ? "" : LastLine(reply.body);
  return fmt::format("answers {}{}{}", reply.status, line.empty() ? "" : ": ", line);
}

Status Denied(const RayQuestion& question, const HttpReply& reply, const RayToken& token) {
  if (!token.is_empty() && !reply.has_had_secrets) {
    return {ErrorCode::kRayDenied,
            fmt::format("{} requires a token, which would travel in clear text ({})", question.url,
                        Said(reply)),
            "SSH to the head protects it, or https://; --ray-address URL sends it all the same"};
  }
  const std::string what = token.is_empty() ? std::string("requires a token")
                                            : fmt::format("rejects the token of {}", token.origin);
  return {ErrorCode::kRayDenied, fmt::format("{} {} ({})", question.url, what, Said(reply)),
          std::string(kWhereToken)};
}

}  // namespace

Result<RayVersion> ParseRayVersion(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RayVersion version{.ray = Text(json, "ray_version"), .session = Text(json, "session_name")};
  if (version.ray.empty()) return Wrong("no ray_version");
  const std::string level = Text(json, "version");
  for (const char c : level) {
    if (c < '0' || c > '9' || version.jobs_api > 9999) break;
    version.jobs_api = version.jobs_api * 10 + (c - '0');
  }
  return version;
}

Result<std::vector<RayNode>> ParseRayNodes(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<Json> rows, Rows(body));
  std::vector<RayNode> nodes;
  for (const Json& row : rows) {
    if (Text(row, "state") != "ALIVE") continue;
    RayNode node{.id = Text(row, "node_id"), .ip = Text(row, "node_ip")};
    if (node.id.empty()) return Wrong("a node without node_id");
    const Json* is_head = Find(row, "is_head_node");
    node.is_head = is_head != nullptr && is_head->is_boolean() && is_head->get<bool>();
    node.total = Resources(Find(row, "resources_total"));
    node.labels = Texts(Find(row, "labels"));
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, [](const RayNode& a, const RayNode& b) {
    return std::tie(b.is_head, a.ip, a.id) < std::tie(a.is_head, b.ip, b.id);
  });
  return nodes;
}

Result<std::vector<RayLostNode>> ParseRayLostNodes(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<Json> rows, Rows(body));
  std::vector<RayLostNode> nodes;
  for (const Json& row : rows) {
    if (Text(row, "state") != "DEAD") continue;
    RayLostNode node{.id = Text(row, "node_id"), .ip = Text(row, "node_ip")};
    if (node.id.empty()) return Wrong("a node without node_id");
    const Json* is_head = Find(row, "is_head_node");
    node.is_head = is_head != nullptr && is_head->is_boolean() && is_head->get<bool>();
    node.why = Text(row, "state_message");
    node.end_ms = Milliseconds(row, "end_time_ms");
    nodes.push_back(std::move(node));
  }
  std::ranges::stable_sort(nodes, {}, &RayLostNode::end_ms);
  return nodes;
}

Result<std::vector<std::string>> ParseRayLogNames(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json* data = Find(json, "data");
  const Json* kinds = data == nullptr ? nullptr : Find(*data, "result");
  if (kinds == nullptr || !kinds->is_object()) {
    const std::string said = Text(json, "msg");
    return Wrong(said.empty() ? "a listing without files" : ShownText(said, 300));
  }
  std::vector<std::string> names;
  for (const auto& [kind, files] : kinds->items()) {
    if (!files.is_array()) continue;
    for (const Json& name : files) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<RayClusterStatus> ParseRayClusterStatus(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json* data = Find(json, "data");
  if (data == nullptr || !data->is_object()) return Wrong("no data");
  RayClusterStatus status;
  const Json* cluster = Find(*data, "clusterStatus");
  if (cluster == nullptr) return status;
  if (!cluster->is_object()) return Wrong("clusterStatus is not an object");
  status.has_report = true;
  if (const Json* report = Find(*cluster, "loadMetricsReport"); report != nullptr) {
    status.usage = Usage(Find(*report, "usage"));
    const Json* nodes = Find(*report, "usageByNode");
    if (nodes != nullptr && nodes->is_object()) {
      for (const auto& [id, usage] : nodes->items()) status.usage_by_node[id] = Usage(&usage);
    }
    AppendDemands(*report, status.pending);
  }
  if (const Json* report = Find(*cluster, "autoscalerReport"); report != nullptr) {
    status.autoscaler = Autoscaler(*report);
  }
  return status;
}

Result<RayNodeSummary> ParseRayNodeSummary(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json* data = Find(json, "data");
  if (data == nullptr || !data->is_object()) return Wrong("no data");
  RayNodeSummary summary;
  for (const auto& [id, lines] : Texts(Find(*data, "nodeLogicalResources"))) {
    summary.usage_by_node[id] = UsageOfLines(lines);
  }
  const Json* nodes = Find(*data, "summary");
  if (nodes == nullptr || !nodes->is_array()) return summary;
  for (const Json& node : *nodes) {
    const Json* raylet = Find(node, "raylet");
    summary.has_node_types |= raylet != nullptr && !Text(*raylet, "nodeTypeName").empty();
  }
  return summary;
}

Result<std::vector<RayPlacementGroup>> ParseRayPlacementGroups(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<Json> rows, Rows(body));
  std::vector<RayPlacementGroup> groups;
  for (const Json& row : rows) {
    RayPlacementGroup group{.id = Text(row, "placement_group_id"),
                            .name = Text(row, "name"),
                            .creator_job_id = Text(row, "creator_job_id"),
                            .state = Text(row, "state")};
    if (group.id.empty()) return Wrong("a placement group without id");
    if (const Json* stats = Find(row, "stats"); stats != nullptr) {
      group.scheduling_state = Text(*stats, "scheduling_state");
    }
    const Json* bundles = Find(row, "bundles");
    if (bundles != nullptr && bundles->is_array()) {
      for (const Json& bundle : *bundles) {
        group.bundles.push_back({.resources = Resources(Find(bundle, "unit_resources")),
                                 .node_id = Text(bundle, "node_id")});
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

Result<RayJob> ParseRayJob(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  return JobOf(json);
}

Result<std::vector<RayJob>> ParseRayJobs(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseJson(body, kMaxAnswerBytes));
  if (!json.is_array()) return Wrong("not a JSON array of jobs");
  std::vector<RayJob> jobs;
  for (const Json& row : json) {
    HVDRAY_ASSIGN_OR_RETURN(RayJob job, JobOf(row));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::string> ParseRayJobLog(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json* logs = Find(json, "logs");
  if (logs == nullptr || !logs->is_string()) return Wrong("no logs");
  return logs->get<std::string>();
}

Result<std::string> ParseSubmission(ByteView body) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  std::string id = Text(json, "submission_id");
  if (id.empty()) id = Text(json, "job_id");
  if (id.empty()) return Wrong("no submission_id");
  return id;
}

Result<bool> ParseRayFlag(ByteView body, const char* key) {
  HVDRAY_ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  const Json* flag = Find(json, key);
  if (flag == nullptr || !flag->is_boolean()) return Wrong(fmt::format("no {}", key));
  return flag->get<bool>();
}

std::string SubmissionBody(const RayJobRequest& request) {
  Json json = Json::object();
  json["entrypoint"] = request.entrypoint;
  if (!request.submission_id.empty()) json["submission_id"] = request.submission_id;
  Json environment = Json::object();
  if (!request.working_dir.empty()) environment["working_dir"] = request.working_dir;
  if (!request.py_modules.empty()) environment["py_modules"] = request.py_modules;
  if (!request.env_vars.empty()) environment["env_vars"] = ObjectOf(request.env_vars);
  if (!environment.empty()) json["runtime_env"] = std::move(environment);
  if (!request.metadata.empty()) json["metadata"] = ObjectOf(request.metadata);
  if (request.num_cpus > 0) json["entrypoint_num_cpus"] = request.num_cpus;
  if (request.num_gpus > 0) json["entrypoint_num_gpus"] = request.num_gpus;
  if (request.memory_bytes > 0) json["entrypoint_memory"] = request.memory_bytes;
  if (!request.resources.empty()) {
    Json resources = Json::object();
    for (const auto& [name, amount] : request.resources) resources[name] = amount;
    json["entrypoint_resources"] = std::move(resources);
  }
  if (!request.label_selector.empty()) {
    json["entrypoint_label_selector"] = ObjectOf(request.label_selector);
  }
  return DumpJson(json);
}

Status NoRayAnswer(const RayQuestion& question, const Status& why) {
  const auto failed = [&](ErrorCode code, std::string_view hint) {
    return Status(code, fmt::format("{}: {}: {}", question.url, question.attempt, why.message()),
                  std::string(hint));
  };
  const auto not_there = [&](std::string_view hint) {
    return Status(ErrorCode::kRayUnreachable,
                  fmt::format("no Ray dashboard answers at {}: {}", question.url, why.message()),
                  std::string(hint));
  };
  switch (why.code()) {
    case ErrorCode::kCancelled:
    case ErrorCode::kUsage:
    case ErrorCode::kOutOfResources:
    case ErrorCode::kInternal:
      return failed(why.code(), why.hint());
    case ErrorCode::kFileUnreadable:
      if (!why.hint().empty()) return failed(why.code(), why.hint());  // of SSL_CERT_FILE
      return failed(why.code(),
                    "--ray-verify takes a file with certificates, or a directory prepared by "
                    "`openssl rehash`");
    case ErrorCode::kHostKeyRejected:
      return not_there(
          "--ray-verify FILE names the certificates to trust; --ray-verify "
          "false turns the check off");
    case ErrorCode::kAuthenticationFailed:
      return Status(
          ErrorCode::kRayDenied,
          fmt::format("{}: {}: it gets no token and no package", question.url, why.message()),
          "if that user runs this cluster for you: --no-peer-check");
    case ErrorCode::kHandshakeFailed:
      return not_there("a dashboard without a proxy in front speaks http:// only");
    case ErrorCode::kUnknownHost:
      return not_there("check the name in --ray-address, RAY_API_SERVER_ADDRESS or RAY_ADDRESS");
    case ErrorCode::kHostUnreachable:
    case ErrorCode::kConnectTimeout:
      return not_there(kWhereDashboard);
    case ErrorCode::kDeadlineExceeded:
      return failed(ErrorCode::kRayFailed, "the head may be overloaded: try again");
    default:
      if (question.is_first) return not_there(kWhereDashboard);
      return failed(ErrorCode::kRayFailed,
                    "something between here and the head may cut "
                    "connections, or refuse large requests");
  }
}

Status RayRefusal(const RayQuestion& question, const HttpReply& reply, const RayToken& token) {
  if (reply.status == 401 || reply.status == 403) return Denied(question, reply, token);
  if (reply.status == 407) {
    return {ErrorCode::kRayUnreachable,
            fmt::format("{}: the proxy requires another login ({})", question.url, Said(reply)),
            "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT, or no_proxy for this host"};
  }
  if (reply.status >= 300 && reply.status < 400) {
    const std::string target = ShownText(reply.location.substr(0, reply.location.find('?')), 200);
    return {ErrorCode::kRayUnreachable,
            fmt::format("{} redirects to {}", question.url, target.empty() ? "nowhere" : target),
            "if that is the cluster's dashboard, pass it as --ray-address"};
  }
  if (reply.status == 502 || reply.status == 503 || reply.status == 504) {
    return {ErrorCode::kRayUnreachable,
            fmt::format("{} {}: no Ray behind it now", question.url, Said(reply)),
            "check that the head runs, and try again"};
  }
  if (reply.status == 413) {
    return {ErrorCode::kPackageTooLarge,
            fmt::format("{}: {}: {}", question.url, question.attempt, Said(reply)),
            "Ray accepts 100 MiB, a proxy in front often less: exclude more (--exclude)"};
  }
  // Only Ray says "Job nope does not exist".
  const bool is_rays = reply.body.find("does not exist") != std::string::npos;
  if (reply.status == 404 && question.is_first && !is_rays) {
    return {
        ErrorCode::kRayUnreachable,
        fmt::format("no Ray dashboard at {}: it answers 404 to {}", question.url, question.attempt),
        std::string(kWhereDashboard)};
  }
  return {ErrorCode::kRayFailed,
          fmt::format("{}: {}: {}", question.url, question.attempt, Said(reply))};
}

Status NotRays(const RayQuestion& question, const HttpReply& reply, const Status& fault) {
  const std::string what = IsPage(reply)
                               ? std::string("a web page, perhaps of a proxy that requires a login")
                               : fault.message();
  return {question.is_first ? ErrorCode::kRayUnreachable : ErrorCode::kRayFailed,
          fmt::format("{}: {}: the answer is not Ray's: {}", question.url, question.attempt, what),
          question.is_first ? std::string(kWhereDashboard) : std::string()};
}

std::string LastLine(ByteView body) {
  while (!body.empty()) {
    const size_t newline = body.find_last_of("\r\n");
    const ByteView line = newline == ByteView::npos ? body : body.substr(newline + 1);
    if (std::ranges::any_of(line, IsWordByte)) {
      const size_t begin = line.find_first_not_of(" \t");
      return ShownText(line.substr(begin, line.find_last_not_of(" \t") - begin + 1), kShownBytes);
    }
    if (newline == ByteView::npos) break;
    body = body.substr(0, newline);
  }
  return {};
}

void MaskToken(std::string& text, const RayToken& token) {
  const std::string_view secret = token.text.view();
  if (secret.size() < kShortestMaskedToken) return;
  for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
    text.replace(at, secret.size(), "<token>");
    at += 7;
  }
}

}  // namespace hvdray
