// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "cluster/ray/ray_answers.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/ray_text.txt");

const RayQuestion kFirst{
    .url = "http://h:8265", .attempt = "ask for its version", .is_first = true};
const RayQuestion kLater{.url = "http://h:8265", .attempt = "list nodes"};

RayToken Token(std::string_view text) { return {Secret(text), "RAY_AUTH_TOKEN"}; }

HttpReply Reply(int status, std::string body, std::string type = "text/plain") {
  return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n    g()\n"
    "RuntimeError: Request failed: no such thing\n\n";

TEST(RayErrorsTest, OfATracebackTheLastLineIsShown) {
  EXPECT_EQ(LastLine(kTraceback), "RuntimeError: Request failed: no such thing");
  EXPECT_EQ(LastLine(std::string(kTraceback) + ".\n\n"), LastLine(kTraceback));
  EXPECT_EQ(LastLine("one\r\n  two \r\n \r\n"), "two");
  EXPECT_EQ(LastLine(" \n\n"), "");
  EXPECT_EQ(LastLine(""), "");
  EXPECT_EQ(LastLine("a\x1b[31mred\n"), "a\\x1b[31mred");
  EXPECT_LT(LastLine(std::string(100000, 'x')).size(), 400U);
  const Status status = RayRefusal(kLater, Reply(500, kTraceback), {});
  ExpectError(status, ErrorCode::kRayFailed,
              {kLater.url, kLater.attempt, "500", LastLine(kTraceback)});
}

TEST(RayErrorsTest, ARefusalSaysWhetherThereWasATokenAndWhereOneComesFrom) {
  const Status none =
      RayRefusal(kFirst, Reply(401, "Unauthorized: Missing authentication token"), {});
  ExpectError(
      none, ErrorCode::kRayDenied,
      {kFirst.url, "requires a token", "401", "Unauthorized", "hint: ", "~/.ray/auth_token"});
  HttpReply reply = Reply(403, "Forbidden: Invalid authentication token");
  const Status withheld = RayRefusal(kFirst, reply, Token("geheim"));
  ExpectError(withheld, ErrorCode::kRayDenied, {"clear text", "--ray-address"});
  reply.has_had_secrets = true;
  const Status wrong = RayRefusal(kFirst, reply, Token("geheim"));
  ExpectError(wrong, ErrorCode::kRayDenied, {"rejects the token", "RAY_AUTH_TOKEN"});
  EXPECT_EQ(wrong.ToString().find("geheim"), std::string::npos);
}

TEST(RayErrorsTest, WhatAServerSendsBackOfTheTokenIsMasked) {
  std::string text = "token geheim is wrong, geheim!";
  MaskToken(text, Token("geheim"));
  EXPECT_EQ(text, "token <token> is wrong, <token>!");
  MaskToken(text, {});
  std::string word = "Ray has no ray";
  MaskToken(word, Token("ray"));
  EXPECT_EQ(word, "Ray has no ray");
}

TEST(RayErrorsTest, EachKindOfAnswerHasItsCode) {
  EXPECT_EQ(RayRefusal(kLater, Reply(413, "Maximum request body size exceeded."), {}).code(),
            ErrorCode::kPackageTooLarge);
  EXPECT_EQ(RayRefusal(kLater, Reply(502, "<html>", "text/html"), {}).code(),
            ErrorCode::kRayUnreachable);
  EXPECT_EQ(RayRefusal(kFirst, Reply(404, ""), {}).code(), ErrorCode::kRayUnreachable);
  EXPECT_EQ(RayRefusal(kLater, Reply(404, ""), {}).code(), ErrorCode::kRayFailed);
  EXPECT_EQ(RayRefusal(kFirst, Reply(404, "Job nope does not exist"), {}).code(),
            ErrorCode::kRayFailed);
  EXPECT_EQ(RayRefusal(kLater, Reply(405, "'POST' method not allowed"), {}).code(),
            ErrorCode::kRayFailed);
  HttpReply redirect = Reply(302, "");
  redirect.location = "https://login.example.com/?ticket=geheim";
  const Status status = RayRefusal(kFirst, redirect, {});
  ExpectError(status, ErrorCode::kRayUnreachable,
              {kFirst.url, "redirects", "https://login.example.com/"});
  EXPECT_EQ(status.ToString().find("geheim"), std::string::npos);
}

TEST(RayErrorsTest, APageIsNotQuoted) {
  const Status page = NotRays(kFirst, Reply(200, "<!doctype html><h1>Log in", "text/html"),
                              Status(ErrorCode::kProtocolError, "invalid JSON at byte 1"));
  EXPECT_EQ(page.code(), ErrorCode::kRayUnreachable);
  EXPECT_NE(page.message().find("a web page"), std::string::npos);
  EXPECT_EQ(page.message().find("Log in"), std::string::npos);
  const Status refusal = RayRefusal(kLater, Reply(500, "<html>\n<b>x</b>\n</html>"), {});
  ExpectSays(refusal.message(), {kLater.url, kLater.attempt, "500"});
  EXPECT_EQ(refusal.message().find('<'), std::string::npos);
  const Status garbage = NotRays(kLater, Reply(200, "garbage"),
                                 Status(ErrorCode::kProtocolError, "invalid JSON at byte 1"));
  EXPECT_EQ(garbage.code(), ErrorCode::kRayFailed);
}

TEST(RayErrorsTest, WhetherItWasReachedDecidesTheCode) {
  const auto code = [](const RayQuestion& question, ErrorCode why) {
    return NoRayAnswer(question, Status(why, "because")).code();
  };
  for (const ErrorCode why :
       {ErrorCode::kHostUnreachable, ErrorCode::kConnectTimeout, ErrorCode::kUnknownHost,
        ErrorCode::kHostKeyRejected, ErrorCode::kHandshakeFailed}) {
    EXPECT_EQ(code(kLater, why), ErrorCode::kRayUnreachable);
  }
  EXPECT_EQ(code(kFirst, ErrorCode::kProtocolError), ErrorCode::kRayUnreachable);
  EXPECT_EQ(code(kLater, ErrorCode::kProtocolError), ErrorCode::kRayFailed);
  EXPECT_EQ(code(kFirst, ErrorCode::kDeadlineExceeded), ErrorCode::kRayFailed);
  EXPECT_EQ(code(kLater, ErrorCode::kCancelled), ErrorCode::kCancelled);
  EXPECT_EQ(code(kLater, ErrorCode::kFileUnreadable), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
