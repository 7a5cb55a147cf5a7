#include "cluster/ray/ray_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr size_t kShownBytes = 300;
constexpr size_t kShortestMaskedToken = 6;  // "ray" is a word, and would go from every message
constexpr std::string_view kWhereDashboard =
    "the dashboard listens on port 8265 of the head, and unless --dashboard-host is given on its "
    "loopback only: ssh -L 8265:127.0.0.1:8265 HEAD";
constexpr std::string_view kWhereToken =
    "put the cluster's token into RAY_AUTH_TOKEN, a file named by RAY_AUTH_TOKEN_PATH, or "
    "~/.ray/auth_token; `ray get-auth-token` on the head prints it";

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool IsPage(const WebReply& reply) {
  const size_t begin = reply.body.find_first_not_of(" \t\r\n");
  return reply.content_type.starts_with("text/html") ||
         (begin != std::string::npos && reply.body[begin] == '<');
}

/// "answers 500: KeyError: 'x'"
std::string Said(const WebReply& reply) {
  const std::string line = IsPage(reply) ? "" : LastLine(reply.body);
  return fmt::format("answers {}{}{}", reply.status, line.empty() ? "" : ": ", line);
}

Status Denied(const RayQuestion& question, const WebReply& reply, const RayToken& token) {
  const std::string what = token.is_empty()
                               ? std::string("lets nobody in without a token")
                               : fmt::format("does not take the token of {}", token.origin);
  return {ErrorCode::kRayDenied, fmt::format("{} {} ({})", question.url, what, Said(reply)),
          std::string(kWhereToken)};
}

}  // namespace

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
      return failed(why.code(),
                    "--ray-verify takes a file with certificates, or a folder as "
                    "`openssl rehash` leaves it");
    case ErrorCode::kHostKeyRejected:
      return not_there(
          "--ray-verify FILE names the certificates to believe in; --ray-verify "
          "false checks none");
    case ErrorCode::kHandshakeFailed:
      return not_there("without a proxy before it a dashboard speaks http:// only");
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

Status RayRefusal(const RayQuestion& question, const WebReply& reply, const RayToken& token) {
  if (reply.status == 401 || reply.status == 403) return Denied(question, reply, token);
  if (reply.status == 407) {
    return {
        ErrorCode::kRayUnreachable,
        fmt::format("{}: the proxy on the way wants another login ({})", question.url, Said(reply)),
        "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT, or no_proxy for this host"};
  }
  if (reply.status >= 300 && reply.status < 400) {
    const std::string target = ShownText(reply.location.substr(0, reply.location.find('?')), 200);
    return {ErrorCode::kRayUnreachable,
            fmt::format("{} redirects to {}", question.url, target.empty() ? "nowhere" : target),
            "if that is the cluster's dashboard, give it as --ray-address"};
  }
  if (reply.status == 502 || reply.status == 503 || reply.status == 504) {
    return {ErrorCode::kRayUnreachable,
            fmt::format("{} {}: no Ray behind it now", question.url, Said(reply)),
            "see whether the head runs, and try again"};
  }
  if (reply.status == 413) {
    return {ErrorCode::kPackageTooLarge,
            fmt::format("{}: {}: {}", question.url, question.attempt, Said(reply)),
            "Ray takes 100 MiB, a proxy before it often less: leave more out (--exclude)"};
  }
  // "Job nope does not exist" is said by Ray and nobody else.
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

Status NotRays(const RayQuestion& question, const WebReply& reply, const Status& fault) {
  const std::string what = IsPage(reply)
                               ? std::string("a web page, maybe of a proxy that wants a login")
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
