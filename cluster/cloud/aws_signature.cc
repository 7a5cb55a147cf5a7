// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_signature.h"

#include <fmt/format.h>
#include <string.h>
#include <time.h>

#include <array>
#include <map>

#include "base/digest.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

/// "20150830T123600Z"
std::string TimeStamp(WallTime now) {
  const time_t seconds = std::chrono::system_clock::to_time_t(now);
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 17> text{};
  return {text.data(), ::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &utc)};
}

/// A path once more in percent-encoding, as all services but S3 have it.
std::string EncodedPath(std::string_view path) {
  std::string encoded;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("/-_.~").find(c) != std::string_view::npos;
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string KeyFor(const AwsSigner& signer, std::string_view day) {
  std::string key = fmt::format("AWS4{}", signer.secret_access_key.view());
  for (const std::string_view part :
       {day, std::string_view(signer.region), std::string_view(signer.service),
        std::string_view("aws4_request")}) {
    const std::string next = HmacSha256(key, part);
    ::explicit_bzero(key.data(), key.size());
    key = next;
  }
  return key;
}

}  // namespace

HttpHeaders SignAwsRequest(const AwsSigner& signer, std::string_view method, const Url& url,
                           HttpHeaders headers, ByteView body, WallTime now) {
  const std::string time = TimeStamp(now);
  const std::string_view day = std::string_view(time).substr(0, 8);
  headers.emplace_back("Host", url.Place());
  headers.emplace_back("X-Amz-Date", time);
  if (!signer.session_token.view().empty()) {
    headers.emplace_back("X-Amz-Security-Token", signer.session_token.view());
  }
  std::map<std::string, std::string_view> sorted;
  for (const auto& [name, value] : headers) sorted.emplace(Lower(name), Trimmed(value));
  std::string lines, names;
  for (const auto& [name, value] : sorted) {
    lines += fmt::format("{}:{}\n", name, value);
    names += fmt::format("{}{}", names.empty() ? "" : ";", name);
  }
  const std::string request = fmt::format("{}\n{}\n\n{}\n{}\n{}", method, EncodedPath(url.target),
                                          lines, names, Hex(Sha256(body)));
  const std::string scope =
      fmt::format("{}/{}/{}/aws4_request", day, signer.region, signer.service);
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope, Hex(Sha256(request)));
  headers.emplace_back(
      "Authorization",
      fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                  signer.access_key_id, scope, names, Hex(HmacSha256(KeyFor(signer, day), text))));
  return headers;
}

}  // namespace hvdray
