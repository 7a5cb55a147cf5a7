// SPDX-License-Identifier: Apache-2.0
// Parses the bytes of a connection into HTTP/1.x requests, piece by piece. Pure: no I/O, no clock.
// Strict on purpose: refuses whatever two readers could take for different requests (request
// smuggling). Source: RFC 9112.
#ifndef HVDRAY_BASE_HTTP_PARSER_H_
#define HVDRAY_BASE_HTTP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace hvdray {

/// A complete request. Fields other than those that frame it are checked and dropped.
struct HttpRequest {
  std::string method;
  std::string target;  ///< As sent, neither decoded nor normalised; no blanks or control bytes.
  bool has_content_length = false;
  std::string body;
};

/// Beyond either: 413.
struct HttpLimits {
  size_t max_header_bytes = size_t{8} * 1024;  ///< Request line, fields and the empty line.
  size_t max_body_bytes = size_t{16} << 20;
};

/// What Feed() has found.
enum class HttpEvent : uint8_t {
  kNeedMore,  ///< All input is consumed; the request is not complete.
  kHeader,    ///< The header is complete and valid; the body comes next.
  kRequest,   ///< The request is complete: call Take().
  kError,     ///< Answer with error_status() and close: the rest of the input is meaningless.
};

/// One parser per connection. How the input is split into pieces does not change the events.
/// Refuses with 400: bare LF or CR, folded or malformed fields, names that are not tokens, a second
/// Content-Length (even an equal one) or Host, a length that is not a plain decimal number. With
/// 501: any Transfer-Encoding (400 with a Content-Length); 505: a version other than HTTP/1.x; 413:
/// a header or body above its limit, as soon as that is known. Allows a missing Host: nothing
/// depends on it.
class HttpParser {
 public:
  /// Consumes `*in` from the front, up to the next event. After kHeader call again even with no
  /// input left: the body may be empty. After kRequest or kError, repeats that event.
  HttpEvent Feed(const HttpLimits& limits, ByteView* in);

  /// After kRequest: moves the request out and resets the parser for the next one.
  HttpRequest Take();

  /// After kError: the HTTP status to answer with.
  int error_status() const { return error_status_; }
  /// Part of a request has arrived, or one waits for Take().
  bool is_midway() const { return !head_.empty() || phase_ != Phase::kHead; }
  /// Bytes of the body so far.
  size_t buffered_bytes() const { return request_.body.size(); }
  /// From kHeader until Take(): the connection may serve another request (HTTP/1.1 without
  /// `Connection: close`, HTTP/1.0 with `Connection: keep-alive`).
  bool keeps_alive() const { return keeps_alive_; }
  bool is_http10() const { return is_http10_; }
  bool is_head_method() const { return request_.method == "HEAD"; }
  /// The client sent `Expect: 100-continue` by HTTP/1.1 and still owes body bytes.
  bool expects_continue() const { return expects_continue_ && body_left_ > 0; }

 private:
  enum class Phase : uint8_t { kHead, kBody, kDone, kBad };

  HttpEvent FeedHead(const HttpLimits& limits, ByteView* in);
  HttpEvent FeedBody(ByteView* in);
  HttpEvent Fail(int status);
  /// 0, or the status to refuse with, here and below. `head` ends with its last field's CRLF.
  int ParseHead(ByteView head, const HttpLimits& limits);
  int ParseRequestLine(ByteView line);
  int ParseField(ByteView line);
  int ParseContentLength(ByteView value);
  void ParseConnection(ByteView value);

  std::string head_;      // an incomplete header; stays empty for one that came in one piece
  uint32_t scanned_ = 0;  // offsets into the header
  uint32_t line_start_ = 0;
  uint32_t first_line_ = 0;  // after the blank lines that may precede a request
  Phase phase_ = Phase::kHead;
  bool keeps_alive_ = false;
  bool is_http10_ = false;
  bool expects_continue_ = false;
  bool has_host_ = false;
  bool has_transfer_encoding_ = false;
  bool says_close_ = false;
  bool says_keep_alive_ = false;
  int16_t error_status_ = 0;
  size_t body_left_ = 0;
  HttpRequest request_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_PARSER_H_
