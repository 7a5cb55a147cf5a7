// Turns bytes of a connection into HTTP/1.x requests, a piece at a time. Pure: no I/O, no clock.
// Strict on purpose: what two readers could take for two different requests is refused.
#ifndef HVDRAY_BASE_HTTP_PARSER_H_
#define HVDRAY_BASE_HTTP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace hvdray {

struct HttpRequest {
  std::string method;
  std::string target;  ///< As sent: neither decoded nor normalised. No blanks or control bytes.
  bool has_content_length = false;
  std::string body;
};

struct HttpLimits {
  size_t max_header_bytes =
      size_t{8} * 1024;  ///< Request line and fields, the empty line included.
  size_t max_body_bytes = size_t{16} << 20;
};

enum class HttpEvent : uint8_t {
  kNeedMore,  ///< All bytes are taken; the request is not complete.
  kHeader,    ///< The header is complete and sound; the body comes next.
  kRequest,   ///< The request is complete: Take() it.
  kError,     ///< error_status() says what to answer; the connection can't be read any further.
};

/// What arrives in one piece or byte by byte gives the same events. Refused: bare LF or CR, folded
/// or malformed fields, other bytes than tokens in names, a second Content-Length (even an equal
/// one) or Host, a length that is no plain decimal number: 400; any Transfer-Encoding: 501 (with a
/// Content-Length: 400); another protocol than HTTP/1.x: 505; a header or body above its limit:
/// 413, as soon as it is known. A missing Host is let pass: nothing here depends on it.
class HttpParser {
 public:
  /// Takes bytes off the front of `*in`, up to and including the next event. Call again for the
  /// next one, also with nothing left: a body may be empty.
  HttpEvent Feed(const HttpLimits& limits, ByteView* in);

  /// After kRequest: moves it out and makes the parser ready for the next one.
  HttpRequest Take();

  int error_status() const { return error_status_; }
  /// Bytes of a request have arrived, but not all.
  bool is_midway() const { return !head_.empty() || phase_ != Phase::kHead; }
  /// Of the body that is not complete yet.
  size_t buffered_bytes() const { return request_.body.size(); }
  /// From kHeader until Take(): whether the connection may serve another request (HTTP/1.1 without
  /// `Connection: close`, HTTP/1.0 with `Connection: keep-alive`).
  bool keeps_alive() const { return keeps_alive_; }
  bool is_http10() const { return is_http10_; }
  bool is_head_method() const { return request_.method == "HEAD"; }
  /// `Expect: 100-continue` on HTTP/1.1, and a body is to come.
  bool expects_continue() const { return expects_continue_ && body_left_ > 0; }

 private:
  enum class Phase : uint8_t { kHead, kBody, kDone, kBad };

  HttpEvent FeedHead(const HttpLimits& limits, ByteView* in);
  HttpEvent FeedBody(ByteView* in);
  HttpEvent Fail(int status);
  /// 0, or the status to refuse with. `head` ends with its last field's CRLF.
  int ParseHead(ByteView head, const HttpLimits& limits);
  int ParseRequestLine(ByteView line);
  int ParseField(ByteView line);
  int ParseContentLength(ByteView value);
  void ParseConnection(ByteView value);

  std::string head_;  // an incomplete header; empty when it came in one piece
  uint32_t scanned_ = 0;
  uint32_t line_start_ = 0;
  uint32_t first_line_ = 0;  // behind blank lines in front of the request
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
