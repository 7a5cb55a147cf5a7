// SPDX-License-Identifier: Apache-2.0
#include "base/http_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvdray {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTooLarge = 413;
constexpr int kNotImplemented = 501;
constexpr int kVersionNotSupported = 505;
// Memory grows with the bytes that arrive, not with the length that a peer claims.
constexpr size_t kFirstBodyBytes = size_t{64} * 1024;

/// The bytes of methods and field names. Source: RFC 9110, 5.6.2.
constexpr bool IsTokenByte(unsigned char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return c != 0 &&
         std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
}

bool IsToken(ByteView text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsTokenByte(static_cast<unsigned char>(c));
  });
}

/// A field value may contain no control bytes but the tab.
bool IsFieldValue(ByteView text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

ByteView TrimBlanks(ByteView text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == ByteView::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

constexpr char ToLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool EqualsIgnoringCase(ByteView text, std::string_view lower) {
  return text.size() == lower.size() && std::equal(text.begin(), text.end(), lower.begin(),
                                                   [](char a, char b) { return ToLower(a) == b; });
}

}  // namespace

HttpEvent HttpParser::Feed(const HttpLimits& limits, ByteView* in) {
  switch (phase_) {
    case Phase::kHead:
      return FeedHead(limits, in);
    case Phase::kBody:
      return FeedBody(in);
    case Phase::kDone:
      return HttpEvent::kRequest;
    case Phase::kBad:
      return HttpEvent::kError;
  }
  return HttpEvent::kError;
}

HttpEvent HttpParser::FeedHead(const HttpLimits& limits, ByteView* in) {
  const size_t before = head_.size();
  if (before != 0) {
    // One byte above the limit is enough to see that it is exceeded.
    head_.append(in->substr(0, limits.max_header_bytes + 1 - before));
  }
  const ByteView all = before != 0 ? ByteView(head_) : *in;
  const size_t scannable = std::min(all.size(), limits.max_header_bytes);
  while (scanned_ < scannable) {
    const void* found = std::memchr(all.data() + scanned_, '\n', scannable - scanned_);
    if (found == nullptr) {
      scanned_ = static_cast<uint32_t>(scannable);
      break;
    }
    const auto at = static_cast<uint32_t>(static_cast<const char*>(found) - all.data());
    if (at == line_start_ || all[at - 1] != '\r') return Fail(kBadRequest);
    const bool is_blank = at - 1 == line_start_;
    const bool is_first = line_start_ == first_line_;
    scanned_ = line_start_ = at + 1;
    if (is_blank && !is_first) {
      const int status = ParseHead(all.substr(first_line_, at - 1 - first_line_), limits);
      if (status != 0) return Fail(status);
      in->remove_prefix(scanned_ - before);
      std::string().swap(head_);
      phase_ = Phase::kBody;
      return HttpEvent::kHeader;
    }
    if (is_blank) first_line_ = scanned_;
  }
  if (all.size() > limits.max_header_bytes) return Fail(kTooLarge);
  if (before == 0) head_.assign(*in);
  in->remove_prefix(in->size());
  return HttpEvent::kNeedMore;
}

HttpEvent HttpParser::FeedBody(ByteView* in) {
  std::string& body = request_.body;
  const size_t taken = std::min(body_left_, in->size());
  if (taken > 0) {
    if (body.empty()) body.reserve(std::min(body_left_, std::max(taken, kFirstBodyBytes)));
    body.append(in->substr(0, taken));
    in->remove_prefix(taken);
    body_left_ -= taken;
  }
  if (body_left_ > 0) return HttpEvent::kNeedMore;
  phase_ = Phase::kDone;
  return HttpEvent::kRequest;
}

HttpEvent HttpParser::Fail(int status) {
  phase_ = Phase::kBad;
  keeps_alive_ = false;
  error_status_ = static_cast<int16_t>(status);
  std::string().swap(head_);
  return HttpEvent::kError;
}

HttpRequest HttpParser::Take() {
  HttpRequest request = std::move(request_);
  *this = HttpParser();
  return request;
}

int HttpParser::ParseHead(ByteView head, const HttpLimits& limits) {
  size_t end = head.find("\r\n");
  if (const int status = ParseRequestLine(head.substr(0, end)); status != 0) return status;
  head.remove_prefix(end + 2);
  while (!head.empty()) {
    end = head.find("\r\n");
    if (const int status = ParseField(head.substr(0, end)); status != 0) return status;
    head.remove_prefix(end + 2);
  }
  if (has_transfer_encoding_) return request_.has_content_length ? kBadRequest : kNotImplemented;
  if (body_left_ > limits.max_body_bytes) return kTooLarge;
  keeps_alive_ = !says_close_ && (!is_http10_ || says_keep_alive_);
  return 0;
}

int HttpParser::ParseRequestLine(ByteView line) {
  const size_t first = line.find(' ');
  if (first == ByteView::npos) return kBadRequest;
  const size_t second = line.find(' ', first + 1);
  if (second == ByteView::npos) return kBadRequest;
  const ByteView method = line.substr(0, first);
  const ByteView target = line.substr(first + 1, second - first - 1);
  const ByteView version = line.substr(second + 1);
  if (!IsToken(method) || target.empty()) return kBadRequest;
  const bool is_target_sound = std::all_of(target.begin(), target.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
  });
  if (!is_target_sound) return kBadRequest;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (version.size() != 8 || version.substr(0, 5) != "HTTP/" || !is_digit(version[5]) ||
      version[6] != '.' || !is_digit(version[7])) {
    return kBadRequest;
  }
  if (version[5] != '1') return kVersionNotSupported;
  is_http10_ = version[7] == '0';
  request_.method.assign(method);
  request_.target.assign(target);
  return 0;
}

int HttpParser::ParseField(ByteView line) {
  const size_t colon = line.find(':');
  if (colon == ByteView::npos) return kBadRequest;
  const ByteView name = line.substr(0, colon);
  const ByteView value = TrimBlanks(line.substr(colon + 1));
  // A folded line starts with a blank, which is not a token byte either.
  if (!IsToken(name) || !IsFieldValue(value)) return kBadRequest;
  switch (name.size()) {
    case 4:
      if (EqualsIgnoringCase(name, "host")) {
        if (has_host_) return kBadRequest;
        has_host_ = true;
      }
      break;
    case 6:
      if (EqualsIgnoringCase(name, "expect")) {
        expects_continue_ = !is_http10_ && EqualsIgnoringCase(value, "100-continue");
      }
      break;
    case 10:
      if (EqualsIgnoringCase(name, "connection")) ParseConnection(value);
      break;
    case 14:
      if (EqualsIgnoringCase(name, "content-length")) return ParseContentLength(value);
      break;
    case 17:
      if (EqualsIgnoringCase(name, "transfer-encoding")) has_transfer_encoding_ = true;
      break;
    default:
      break;
  }
  return 0;
}

int HttpParser::ParseContentLength(ByteView value) {
  if (request_.has_content_length || value.empty()) return kBadRequest;
  uint64_t length = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return kBadRequest;
    // Saturates above every limit instead of wrapping.
    length = std::min<uint64_t>(length * 10 + static_cast<uint64_t>(c - '0'), uint64_t{1} << 56);
  }
  request_.has_content_length = true;
  body_left_ = length;
  return 0;
}

void HttpParser::ParseConnection(ByteView value) {
  while (!value.empty()) {
    const size_t comma = value.find(',');
    const ByteView option = TrimBlanks(value.substr(0, comma));
    if (EqualsIgnoringCase(option, "close")) says_close_ = true;
    if (EqualsIgnoringCase(option, "keep-alive")) says_keep_alive_ = true;
    value.remove_prefix(comma == ByteView::npos ? value.size() : comma + 1);
  }
}

}  // namespace hvdray
