// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/dashboard_client.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "cluster/ray/ray_answers.h"

namespace hvdray {
namespace {

constexpr std::string_view kNodesPath =
    "/api/v0/nodes?limit=10000&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE";

constexpr std::string_view kLostNodesPath =
    "/api/v0/nodes?detail=True&limit=10000&filter_keys=state&filter_predicates=%3D"
    "&filter_values=DEAD";
// What the autoscaler says, in words for people; and how much of it is news.
constexpr std::string_view kAutoscalerLog = "monitor.log";
constexpr int kAutoscalerLines = 3;

constexpr std::string_view kOldFault = "[get_logs] Fetch log error: ";

/// Percent-encodes one segment of a path, or one value of a query.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    escaped += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

/// `kind`: "stream", or "file", which fails with an interval. format=text: without it, Ray before
/// 2.50 or so adds a byte before each piece.
std::string LogPath(std::string_view kind, const std::string& node_id, const std::string& name,
                    int64_t lines = -1) {
  return fmt::format("/api/v0/logs/{}?node_id={}&filename={}&lines={}&format=text{}", kind,
                     Escaped(node_id), Escaped(name), lines,
                     kind == "stream" ? "&interval=0.2" : "");
}

HttpClientOptions OptionsOf(const RayAccess& access) {
  HttpClientOptions options;
  options.host = access.address.host;
  options.port = access.address.port;
  if (access.address.is_tls) options.tls = MakeHttpTls(access.trust);
  options.proxy = access.proxy;
  options.timeout = options.connect_timeout = access.timeout;
  options.socket_path = access.address.socket_path;
  options.headers = {{"User-Agent", access.user_agent}};
  options.secrets = access.headers;
  options.are_secrets_for_others = access.is_clear_text_allowed;
  if (!access.is_peer_checked) options.local_peer = HttpLocalPeer::kAny;
  if (!access.token.is_empty()) {
    // A proxy may use the usual header for itself; Ray accepts the other one as well.
    const bool is_taken = std::ranges::any_of(access.headers, [](const auto& header) {
      return ::strcasecmp(header.first.c_str(), "authorization") == 0;
    });
    options.secrets.emplace_back(is_taken ? "X-Ray-Authorization" : "Authorization",
                                 fmt::format("Bearer {}", access.token.text.view()));
  }
  return options;
}

/// The end of `text` that has its last `count` lines; an unfinished line counts.
ByteView LastLines(ByteView text, int64_t count) {
  size_t begin = text.size();
  for (; begin > 0 && count > 0; --count) {
    const size_t end = text.substr(0, begin - 1).rfind('\n');
    begin = end == ByteView::npos ? 0 : end + 1;
  }
  return text.substr(begin);
}

bool SaysItIsNotThere(const HttpReply& reply) {
  return reply.status == 404 && reply.body.find("does not exist") != std::string::npos;
}

}  // namespace

RayAccess RayAccess::Copy() const {
  return {.address = address,
          .token = {token.text.Copy(), token.origin},
          .headers = headers,
          .is_clear_text_allowed = is_clear_text_allowed,
          .is_peer_checked = is_peer_checked,
          .trust = trust,
          .proxy = proxy,
          .user_agent = user_agent,
          .timeout = timeout};
}

struct DashboardClient::Impl {
  explicit Impl(RayAccess with)
      : access(std::move(with)), url(access.address.Shown()), http(OptionsOf(access)) {}

  RayQuestion Question(std::string_view attempt) const {
    return {.url = url, .attempt = std::string(attempt), .is_first = !is_known};
  }

  /// Returns an answer of any status. `path`: without the prefix of the address.
  Result<HttpReply> Ask(std::string_view attempt, HttpCall request) {
    request.path.insert(0, access.address.prefix);
    Result<HttpReply> reply = http.Send(request);
    if (!reply.ok()) return NoRayAnswer(Question(attempt), reply.status());
    MaskToken(reply->body, access.token);
    return reply;
  }

  Status Refusal(std::string_view attempt, const HttpReply& reply) const {
    return RayRefusal(Question(attempt), reply, access.token);
  }

  /// Parses an answer of status 200.
  template <typename Parse>
  auto Read(std::string_view attempt, const HttpReply& reply, Parse parse)
      -> decltype(parse(ByteView())) {
    if (reply.status != 200) return Refusal(attempt, reply);
    auto value = parse(ByteView(reply.body));
    if (!value.ok()) return NotRays(Question(attempt), reply, value.status());
    is_known = true;
    return value;
  }

  template <typename Parse>
  auto AskAndRead(std::string_view attempt, HttpCall request, Parse parse)
      -> decltype(parse(ByteView())) {
    const Result<HttpReply> reply = Ask(attempt, std::move(request));
    if (!reply.ok()) return reply.status();
    return Read(attempt, *reply, parse);
  }

  Status Stream(std::string_view attempt, const std::string& path,
                const std::function<bool(ByteView)>& take, bool is_endless) {
    bool is_enough = false;
    // Older versions of Ray report an error as the last piece of an answer with status 200. Hold a
    // piece that looks like one until another piece follows.
    std::string held;
    const auto take_piece = [&](ByteView piece) {
      is_enough = !held.empty() && !take(std::exchange(held, {}));
      if (is_enough) return false;
      if (piece.starts_with(kOldFault)) {
        held = piece;
        return true;
      }
      is_enough = !take(piece);
      return !is_enough;
    };
    const std::string whole_path = access.address.prefix + path;
    Result<HttpReply> reply =
        is_endless ? http.Stream(whole_path, take_piece) : http.Fetch(whole_path, take_piece);
    if (!reply.ok()) return NoRayAnswer(Question(attempt), reply.status());
    if (!held.empty()) *reply = {.status = 500, .body = held.substr(kOldFault.size())};
    MaskToken(reply->body, access.token);
    if (reply->status != 200) return Refusal(attempt, *reply);
    is_known = true;
    if (is_enough || !is_endless) return {};
    return {ErrorCode::kRayFailed, fmt::format("{}: {}: ended by the head", url, attempt)};
  }

  const RayAccess access;
  const std::string url;
  HttpClient http;
  bool is_known = false;
};

DashboardClient::DashboardClient(RayAccess access)
    : impl_(std::make_unique<Impl>(std::move(access))) {}
DashboardClient::~DashboardClient() = default;

const RayAccess& DashboardClient::access() const { return impl_->access; }
void DashboardClient::Cancel() { impl_->http.Cancel(); }

Result<RayVersion> DashboardClient::Version() {
  return impl_->AskAndRead("query the version", {.method = "GET", .path = "/api/version"},
                           ParseRayVersion);
}

Result<std::vector<RayNode>> DashboardClient::Nodes() {
  return impl_->AskAndRead("list nodes", {.method = "GET", .path = std::string(kNodesPath)},
                           ParseRayNodes);
}

Result<std::vector<RayLostNode>> DashboardClient::LostNodes() {
  return impl_->AskAndRead(
      "list lost nodes", {.method = "GET", .path = std::string(kLostNodesPath)}, ParseRayLostNodes);
}

Result<std::vector<std::string>> DashboardClient::LogNames(const std::string& node_id) {
  return impl_->AskAndRead("list logs",
                           {.method = "GET", .path = "/api/v0/logs?node_id=" + Escaped(node_id)},
                           ParseRayLogNames);
}

Result<RayClusterStatus> DashboardClient::ClusterStatus() {
  return impl_->AskAndRead("query resource usage", {.method = "GET", .path = "/api/cluster_status"},
                           ParseRayClusterStatus);
}

Result<RayNodeSummary> DashboardClient::NodeSummary() {
  return impl_->AskAndRead("query resource usage of nodes",
                           {.method = "GET", .path = "/nodes?view=summary&nocache=1"},
                           ParseRayNodeSummary);
}

Result<std::vector<RayPlacementGroup>> DashboardClient::PlacementGroups() {
  return impl_->AskAndRead(
      "list placement groups",
      {.method = "GET", .path = "/api/v0/placement_groups?detail=True&limit=10000"},
      ParseRayPlacementGroups);
}

Result<bool> DashboardClient::HasPackage(const std::string& name) {
  constexpr std::string_view kAttempt = "look for a package";
  HVDRAY_ASSIGN_OR_RETURN(
      const HttpReply reply,
      impl_->Ask(kAttempt, {.method = "GET", .path = "/api/packages/gcs/" + Escaped(name)}));
  if (SaysItIsNotThere(reply)) return false;
  if (reply.status != 200) return impl_->Refusal(kAttempt, reply);
  return true;
}

Status DashboardClient::PutPackage(const std::string& name, ByteView bytes) {
  const std::string attempt = fmt::format("upload {} ({} bytes)", name, bytes.size());
  HVDRAY_ASSIGN_OR_RETURN(
      const HttpReply reply,
      impl_->Ask(attempt, {.method = "PUT",
                           .path = "/api/packages/gcs/" + Escaped(name),
                           .body = bytes,
                           .headers = {{"Content-Type", "application/octet-stream"}}}));
  return reply.status == 200 ? Status() : impl_->Refusal(attempt, reply);
}

Result<std::string> DashboardClient::Submit(const RayJobRequest& request) {
  const std::string body = SubmissionBody(request);
  return impl_->AskAndRead("submit a job",
                           {.method = "POST",
                            .path = "/api/jobs/",
                            .body = body,
                            .headers = {{"Content-Type", "application/json"}}},
                           ParseSubmission);
}

Result<std::optional<RayJob>> DashboardClient::GetJob(const std::string& id) {
  const std::string attempt = fmt::format("query job {}", id);
  HVDRAY_ASSIGN_OR_RETURN(
      const HttpReply reply,
      impl_->Ask(attempt, {.method = "GET", .path = "/api/jobs/" + Escaped(id)}));
  if (SaysItIsNotThere(reply)) return std::optional<RayJob>();
  HVDRAY_ASSIGN_OR_RETURN(RayJob job, impl_->Read(attempt, reply, ParseRayJob));
  return std::optional<RayJob>(std::move(job));
}

Result<std::vector<RayJob>> DashboardClient::ListJobs() {
  return impl_->AskAndRead("list jobs", {.method = "GET", .path = "/api/jobs/"}, ParseRayJobs);
}

Result<bool> DashboardClient::StopJob(const std::string& id) {
  return impl_->AskAndRead(
      fmt::format("stop job {}", id),
      {.method = "POST", .path = fmt::format("/api/jobs/{}/stop", Escaped(id))},
      [](ByteView body) { return ParseRayFlag(body, "stopped"); });
}

Status DashboardClient::StreamLog(const std::string& node_id, const std::string& file_name,
                                  const std::function<bool(ByteView piece)>& take) {
  return impl_->Stream(fmt::format("follow {}", file_name), LogPath("stream", node_id, file_name),
                       take, /*is_endless=*/true);
}

Status DashboardClient::ReadLog(const std::string& node_id, const std::string& file_name,
                                const std::function<bool(ByteView piece)>& take,
                                std::optional<int64_t> lines) {
  const std::string attempt = fmt::format("read {}", file_name);
  bool is_something = false;
  HVDRAY_RETURN_IF_ERROR(impl_->Stream(
      attempt, LogPath("file", node_id, file_name, lines.value_or(-1)),
      [&](ByteView piece) {
        is_something = true;
        return take(piece);
      },
      /*is_endless=*/false));
  if (is_something) return {};
  // For a missing file, Ray sometimes reports an error and sometimes sends an empty answer.
  return {ErrorCode::kRayFailed,
          fmt::format("{}: {}: the file is empty or missing", impl_->url, attempt)};
}

std::string RayJobLogName(const std::string& submission_id) {
  return fmt::format("job-driver-{}.log", submission_id);
}

Status DashboardClient::ReadJobLog(const RayJob& job,
                                   const std::function<bool(ByteView piece)>& take,
                                   std::optional<int64_t> lines) {
  const std::string& id = job.submission_id;
  if (!job.driver_node_id.empty()) {
    bool is_something = false;
    Status status = ReadLog(
        job.driver_node_id, RayJobLogName(id),
        [&](ByteView piece) {
          is_something = true;
          return take(piece);
        },
        lines);
    if (is_something || status.code() != ErrorCode::kRayFailed) return status;
  }
  HVDRAY_ASSIGN_OR_RETURN(
      const std::string text,
      impl_->AskAndRead(fmt::format("read the log of job {}", id),
                        {.method = "GET", .path = fmt::format("/api/jobs/{}/logs", Escaped(id))},
                        ParseRayJobLog));
  const ByteView tail = lines ? LastLines(text, *lines) : ByteView(text);
  if (!tail.empty()) take(tail);
  return {};
}

namespace {

// Autoscaler v2 writes no report; v1 writes its first one some seconds after the head's start.
Result<RayClusterStatus> ToStatus(DashboardClient& client) {
  HVDRAY_ASSIGN_OR_RETURN(RayClusterStatus status, client.ClusterStatus());
  if (status.has_report) return status;
  const Result<RayNodeSummary> summary = client.NodeSummary();
  if (!summary.ok()) {
    Log(LogLevel::kInfo, "ray", "resource usage is unknown: {}", summary.status().message());
    return status;
  }
  // Ask again: on v1 the report may have come meanwhile, and then it is complete.
  HVDRAY_ASSIGN_OR_RETURN(status, client.ClusterStatus());
  if (status.has_report) return status;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<RayPlacementGroup> groups, client.PlacementGroups());
  return StatusOfNodes(*summary, groups);
}

}  // namespace

namespace {

Result<RaySnapshot> SnapshotOf(DashboardClient& client) {
  RaySnapshot cluster;
  cluster.address = client.access().address;
  HVDRAY_ASSIGN_OR_RETURN(cluster.version, client.Version());
  HVDRAY_ASSIGN_OR_RETURN(cluster.nodes, client.Nodes());
  HVDRAY_ASSIGN_OR_RETURN(cluster.status, ToStatus(client));
  UndoCamelCase(cluster.nodes, cluster.status);
  FillFree(cluster.status, cluster.nodes);
  return cluster;
}

/// The last lines of the autoscaler's log; empty where there is none to read.
std::vector<std::string> AutoscalerWords(DashboardClient& client, const RaySnapshot& cluster) {
  const bool is_there = cluster.status.autoscaler && cluster.status.autoscaler->adds_nodes;
  if (!is_there || cluster.nodes.empty() || !cluster.nodes.front().is_head) return {};
  std::string text;
  const Status read = client.ReadLog(
      cluster.nodes.front().id, std::string(kAutoscalerLog),
      [&text](ByteView piece) {
        text += piece;
        return true;
      },
      kAutoscalerLines);
  if (!read.ok()) Log(LogLevel::kInfo, "ray", "autoscaler: {}", read.message());
  std::vector<std::string> lines;
  for (const std::string_view line : BlankSeparated(text, "\r\n")) {
    lines.push_back(ShownLine(line));
  }
  return lines;
}

}  // namespace

Result<RaySnapshot> LookAtRay(RayAccess access) {
  DashboardClient client(std::move(access));
  return SnapshotOf(client);
}

Result<ClusterView> LookAtCluster(RayAccess access, int64_t now_ms) {
  DashboardClient client(std::move(access));
  ClusterView view;
  view.now_ms = now_ms;
  HVDRAY_ASSIGN_OR_RETURN(view.cluster, SnapshotOf(client));
  HVDRAY_ASSIGN_OR_RETURN(view.lost, client.LostNodes());
  HVDRAY_ASSIGN_OR_RETURN(view.groups, client.PlacementGroups());
  HVDRAY_ASSIGN_OR_RETURN(view.jobs, client.ListJobs());
  view.autoscaler_words = AutoscalerWords(client, view.cluster);
  return view;
}

namespace {

bool IsWorthAnotherTry(ErrorCode code) {
  return code == ErrorCode::kRayUnreachable || code == ErrorCode::kRayFailed;
}

}  // namespace

RayLogFollower::RayLogFollower(RayAccess access, Options options)
    : client_(std::move(access)), options_(std::move(options)), offset_(options_.offset) {}

Status RayLogFollower::Follow(const Handlers& handlers) {
  Duration pause = options_.first_pause;
  while (true) {
    uint64_t to_skip = offset_;
    Status ended = client_.StreamLog(options_.node_id, options_.file_name, [&](ByteView piece) {
      const size_t skipped = std::min<uint64_t>(to_skip, piece.size());
      to_skip -= skipped;
      piece.remove_prefix(skipped);
      if (piece.empty()) return true;
      pause = options_.first_pause;
      offset_ += piece.size();
      return handlers.take(piece);
    });
    if (!IsWorthAnotherTry(ended.code())) return ended;
    if (handlers.on_pause) handlers.on_pause(ended);
    if (!Pause(pause)) return {ErrorCode::kCancelled, "given up"};
    pause = std::min(2 * pause, options_.longest_pause);
  }
}

void RayLogFollower::Cancel() {
  client_.Cancel();
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  wakeup_.notify_all();
}

bool RayLogFollower::Pause(Duration pause) {
  std::unique_lock lock(mutex_);
  return !wakeup_.wait_for(lock, pause, [this] { return is_cancelled_; });
}

}  // namespace hvdray
