// SPDX-License-Identifier: Apache-2.0
#include "base/http_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace hvdray {
namespace {

using std::string_literals::operator""s;

/// Everything a parser said about some bytes, as text: events, requests, the error.
std::string Transcript(std::string_view bytes, size_t step, HttpLimits limits = {}) {
  HttpParser parser;
  std::string log;
  for (size_t at = 0; at < bytes.size(); at += step) {
    ByteView in = bytes.substr(at, step);
    for (;;) {
      const HttpEvent event = parser.Feed(limits, &in);
      if (event == HttpEvent::kNeedMore) break;
      if (event == HttpEvent::kError) return log + fmt::format("error {}", parser.error_status());
      if (event == HttpEvent::kHeader) {
        log += fmt::format("header keep={} ", parser.keeps_alive());
        continue;
      }
      const HttpRequest request = parser.Take();
      log += fmt::format("{} {} length={} body={}; ", request.method, request.target,
                         request.has_content_length, request.body);
    }
  }
  return log + (parser.is_midway() ? "midway" : "");
}

struct Case {
  std::string name;
  std::string bytes;
  std::string transcript;
};

std::vector<Case> Cases() {
  const std::string get = "GET /s/k HTTP/1.1\r\n";
  const std::string ok = "header keep=true GET /s/k length=false body=; ";
  return {
      {"Minimal", get + "\r\n", ok},
      {"HorovodPut", "PUT /global/0 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 3\r\n\r\nabc",
       "header keep=true PUT /global/0 length=true body=abc; "},
      {"HorovodGet", "GET /global/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
       "header keep=true GET /global/1 length=true body=; "},
      {"Pipelined", get + "\r\n" + get + "\r\n", ok + ok},
      {"PipelinedBehindBody", "PUT /s/k HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi" + get + "\r\n",
       "header keep=true PUT /s/k length=true body=hi; " + ok},
      {"BodyWithNulAndCrlf", "PUT /a/b HTTP/1.1\r\nContent-Length: 5\r\n\r\n\0\r\n\r\n"s,
       "header keep=true PUT /a/b length=true body=\0\r\n\r\n; "s},
      {"BlankLinesInFront", "\r\n\r\n" + get + "\r\n", ok},
      {"NoLength", "PUT /s/k HTTP/1.1\r\nHost: h\r\n\r\n",
       "header keep=true PUT /s/k length=false body=; "},
      {"LengthWithZerosInFront", "PUT /s/k HTTP/1.1\r\ncontent-length:\t 0002 \r\n\r\nok",
       "header keep=true PUT /s/k length=true body=ok; "},
      {"BytesAboveAscii", "GET /s/h\xC3\xB6st HTTP/1.1\r\n\r\n",
       "header keep=true GET /s/h\xC3\xB6st length=false body=; "},
      {"Close", get + "Connection: Keep-Alive , CLOSE\r\n\r\n",
       "header keep=false GET /s/k length=false body=; "},
      {"CloseWinsOverLaterKeepAlive", get + "Connection: close\r\nConnection: keep-alive\r\n\r\n",
       "header keep=false GET /s/k length=false body=; "},
      {"Http10", "GET /s/k HTTP/1.0\r\n\r\n", "header keep=false GET /s/k length=false body=; "},
      {"Http10KeepAlive", "GET /s/k HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ok},
      {"Http12IsHttp11", "GET /s/k HTTP/1.2\r\n\r\n", ok},
      {"CutInHeader", get, "midway"},
      {"CutInBody", "PUT /s/k HTTP/1.1\r\nContent-Length: 4\r\n\r\nabc", "header keep=true midway"},
      {"Nothing", "", ""},

      {"BareLf", "GET /s/k HTTP/1.1\n\n", "error 400"},
      {"BareLfAfterGoodLine", get + "Host: h\n\r\n", "error 400"},
      {"LfFirst", "\n", "error 400"},
      {"BareCrInLine", "GET /s/k\rx HTTP/1.1\r\n\r\n", "error 400"},
      {"CrCrLf", "GET /s/k HTTP/1.1\r\r\n\r\n", "error 400"},
      {"Folded", get + "Host: a\r\n b\r\n\r\n", "error 400"},
      {"FoldedFirst", get + " Host: a\r\n\r\n", "error 400"},
      {"SpaceBeforeColon", get + "Content-Length : 0\r\n\r\n", "error 400"},
      {"NoColon", get + "Host\r\n\r\n", "error 400"},
      {"EmptyName", get + ": a\r\n\r\n", "error 400"},
      {"NulInName", get + "Ho\0st: a\r\n\r\n"s, "error 400"},
      {"NulInValue", get + "Host: a\0b\r\n\r\n"s, "error 400"},
      {"DeleteByteInValue", get + "Host: a\x7f\r\n\r\n", "error 400"},
      {"TwoHosts", get + "Host: a\r\nHost: a\r\n\r\n", "error 400"},
      {"TwoLengths", "PUT /s/k HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
       "error 400"},
      {"TwoEqualLengths", "PUT /s/k HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\na",
       "error 400"},
      {"LengthList", get + "Content-Length: 1, 1\r\n\r\n", "error 400"},
      {"LengthSigned", get + "Content-Length: +1\r\n\r\n", "error 400"},
      {"LengthNegative", get + "Content-Length: -1\r\n\r\n", "error 400"},
      {"LengthHex", get + "Content-Length: 0x1\r\n\r\n", "error 400"},
      {"LengthEmpty", get + "Content-Length:\r\n\r\n", "error 400"},
      {"LengthWithBlank", get + "Content-Length: 1 1\r\n\r\n", "error 400"},
      {"LengthWrapsAround", get + "Content-Length: 18446744073709551617\r\n\r\n", "error 413"},
      {"LengthOfThousandDigits", get + "Content-Length: " + std::string(1000, '9') + "\r\n\r\n",
       "error 413"},
      {"LengthOneAboveLimit", get + "Content-Length: 16777217\r\n\r\n", "error 413"},
      {"Chunked", "PUT /s/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "error 501"},
      {"ChunkedAndLength",
       "PUT /s/k HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "error 400"},
      {"LengthAndEncodingIdentity", get + "Transfer-Encoding: identity\r\n\r\n", "error 501"},
      {"NoVersion", "GET /s/k\r\n\r\n", "error 400"},
      {"Http2", "PRI * HTTP/2.0\r\n\r\n", "error 505"},
      {"LowerCaseVersion", "GET / http/1.1\r\n\r\n", "error 400"},
      {"LongVersion", "GET / HTTP/1.10\r\n\r\n", "error 400"},
      {"TwoBlanks", "GET  /s/k HTTP/1.1\r\n\r\n", "error 400"},
      {"BlankInTarget", "GET /s/ k HTTP/1.1\r\n\r\n", "error 400"},
      {"TabInTarget", "GET /s/\tk HTTP/1.1\r\n\r\n", "error 400"},
      {"EmptyMethod", " /s/k HTTP/1.1\r\n\r\n", "error 400"},
      {"MethodOfSeparators", "G(T /s/k HTTP/1.1\r\n\r\n", "error 400"},
      {"TlsHello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n"s, "error 400"},
  };
}

class HttpParserTableTest : public testing::TestWithParam<Case> {};

TEST_P(HttpParserTableTest, SaysTheSameForEverySplit) {
  const Case& row = GetParam();
  for (const size_t step : {size_t{1} << 20, size_t{1}, size_t{2}, size_t{3}, size_t{7}}) {
    EXPECT_EQ(Transcript(row.bytes, step), row.transcript) << "in pieces of " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, HttpParserTableTest, testing::ValuesIn(Cases()),
                         [](const auto& row) { return row.param.name; });

TEST(HttpParserTest, TakesAHeaderOfExactlyTheLimitAndRefusesOneByteMore) {
  const std::string frame = "GET /s/k HTTP/1.1\r\nX: \r\n\r\n";
  for (const size_t size : {size_t{8192}, size_t{8193}}) {
    std::string bytes = frame;
    bytes.insert(bytes.size() - 4, size - frame.size(), 'x');
    ASSERT_EQ(bytes.size(), size);
    for (const size_t step : {size_t{1} << 20, size_t{1}, size_t{8192}, size_t{4097}}) {
      EXPECT_EQ(Transcript(bytes, step),
                size == 8192 ? "header keep=true GET /s/k length=false body=; " : "error 413");
    }
  }
}

TEST(HttpParserTest, RefusesAnEndlessHeaderWithoutKeepingIt) {
  EXPECT_EQ(Transcript(std::string(100'000, 'a'), 1000), "error 413");
  EXPECT_EQ(Transcript(std::string(100'000, 'a'), 100'000), "error 413");
}

TEST(HttpParserTest, CountsBlankLinesInFrontAgainstTheLimit) {
  std::string blank;
  for (int i = 0; i < 5000; ++i) blank += "\r\n";
  EXPECT_EQ(Transcript(blank, 1), "error 413");
  EXPECT_EQ(Transcript(blank, blank.size()), "error 413");
}

TEST(HttpParserTest, DoesNotReserveWhatAPeerOnlyClaimsToSend) {
  HttpParser parser;
  ByteView in = "PUT /s/k HTTP/1.1\r\nContent-Length: 16777216\r\n\r\nx";
  ASSERT_EQ(parser.Feed({}, &in), HttpEvent::kHeader);
  ASSERT_EQ(parser.Feed({}, &in), HttpEvent::kNeedMore);
  EXPECT_EQ(parser.buffered_bytes(), 1U);
}

TEST(HttpParserTest, ReportsAnErrorAgainAndAgain) {
  HttpParser parser;
  ByteView in = "\nGET /s/k HTTP/1.1\r\n\r\n";
  EXPECT_EQ(parser.Feed({}, &in), HttpEvent::kError);
  EXPECT_EQ(parser.Feed({}, &in), HttpEvent::kError);
  EXPECT_FALSE(parser.keeps_alive());
}

TEST(HttpParserTest, ExpectsContinueOnlyWhenABodyIsToCome) {
  const auto expects = [](std::string_view bytes) {
    HttpParser parser;
    EXPECT_EQ(parser.Feed({}, &bytes), HttpEvent::kHeader);
    return parser.expects_continue();
  };
  EXPECT_TRUE(expects("PUT /a/b HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n"));
  EXPECT_FALSE(expects("PUT /a/b HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_FALSE(expects("PUT /a/b HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"));
  EXPECT_FALSE(expects("PUT /a/b HTTP/1.1\r\nContent-Length: 1\r\n\r\n"));
}

TEST(HttpParserTest, KnowsHeadByItsMethod) {
  HttpParser parser;
  ByteView in = "HEAD /s/k HTTP/1.1\r\n\r\n";
  ASSERT_EQ(parser.Feed({}, &in), HttpEvent::kHeader);
  EXPECT_TRUE(parser.is_head_method());
  ASSERT_EQ(parser.Feed({}, &in), HttpEvent::kRequest);
  EXPECT_EQ(parser.Take().method, "HEAD");
  EXPECT_FALSE(parser.is_head_method());
  EXPECT_FALSE(parser.is_midway());
}

}  // namespace
}  // namespace hvdray
