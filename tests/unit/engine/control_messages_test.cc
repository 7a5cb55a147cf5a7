// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/control_messages.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Result<ControlRequest> Read(const char* text, uint64_t blob = 0) {
  const Result<Json> head = ParseJson(text);
  EXPECT_TRUE(head.ok()) << text;
  return ReadControlRequest(head->at("type").get<std::string>(), *head, blob, seconds(5));
}

template <typename Request>
Request Must(const char* text, uint64_t blob = 0) {
  Result<ControlRequest> request = Read(text, blob);
  EXPECT_TRUE(request.ok()) << text << ": " << request.status().ToString();
  if (!request.ok() || !std::holds_alternative<Request>(*request)) return {};
  return std::get<Request>(*std::move(request));
}

TEST(ControlMessagesTest, EveryRequestIsRead) {
  EXPECT_EQ(Must<control::Hello>(R"({"type":"hello","protocol":1,"client":"x"})").client, "x");
  const auto start = Must<control::Start>(
      R"({"type":"start","gang":3,"np":2,"env":{"A":"b=c"},"objects":[4,5],"data":{"f":1}})", 7);
  EXPECT_EQ(start.gang, 3);
  EXPECT_EQ(start.np, 2);
  EXPECT_EQ(start.env, (std::map<std::string, std::string>{{"A", "b=c"}}));
  EXPECT_EQ(start.objects, (std::vector<int64_t>{4, 5}));
  EXPECT_TRUE(start.has_data);
  EXPECT_EQ(start.data, Json({{"f", 1}}));
  EXPECT_FALSE(Must<control::Start>(R"({"type":"start","gang":1,"np":1})").has_data);
  EXPECT_TRUE(Must<control::Start>(R"({"type":"start","gang":1,"np":1,"data":null})").has_data);
  EXPECT_EQ(Must<control::Start>(R"({"type":"start","gang":1})").np, 0);
  const auto send = Must<control::Send>(R"({"type":"send","gang":1,"to":[2,0],"data":"x"})");
  EXPECT_EQ(send.to, (control::Ranks{2, 0}));
  EXPECT_TRUE(Must<control::Send>(R"({"type":"send","gang":1,"to":"all"})").to.empty());
  EXPECT_EQ(Must<control::Signal>(R"({"type":"signal","gang":1,"to":"all","signo":2})").signo, 2);
  EXPECT_EQ(Must<control::Stop>(R"({"type":"stop","gang":1})").grace, seconds(5));
  EXPECT_EQ(Must<control::Stop>(R"({"type":"stop","gang":1,"grace_s":0.25})").grace,
            milliseconds(250));
  EXPECT_FALSE(Must<control::Stop>(R"({"type":"stop","gang":1})").is_sigint_first);
  EXPECT_TRUE(Must<control::Stop>(R"({"type":"stop","gang":1,"interrupt":true})").is_sigint_first);
  const auto put = Must<control::Put>(R"({"type":"put","object":9})", uint64_t{1} << 40);
  EXPECT_EQ(put.object, 9);
  EXPECT_EQ(put.size, uint64_t{1} << 40);
  EXPECT_EQ(Must<control::Drop>(R"({"type":"drop","object":9})").object, 9);
  const auto hosts =
      Must<control::Hosts>(R"({"type":"hosts","hosts":["a:4","me@b"],"final":true})");
  EXPECT_EQ(hosts.hosts, (std::vector<std::string>{"a:4", "me@b"}));
  EXPECT_TRUE(hosts.is_final);
  EXPECT_TRUE(Must<control::Hosts>(R"({"type":"hosts","hosts":[]})").hosts.empty());
  const auto notify =
      Must<control::Notify>(R"({"type":"notify","gang":3,"to":[0],"timestamp":9007199254740992})");
  EXPECT_EQ(notify.gang, 3);
  EXPECT_EQ(notify.to, control::Ranks{0});
  EXPECT_EQ(notify.timestamp, int64_t{1} << 53);
  const auto warm =
      Must<control::Warm>(R"({"type":"warm","preload":["json","?a.b"],"env":{"A":"1"}})");
  EXPECT_EQ(warm.preload, (std::vector<std::string>{"json", "?a.b"}));
  EXPECT_EQ(warm.env, (std::map<std::string, std::string>{{"A", "1"}}));
  EXPECT_TRUE(Must<control::Warm>(R"({"type":"warm","preload":["json"]})").env.empty());
  Must<control::Flush>(R"({"type":"flush"})");
  EXPECT_EQ(Must<control::Credit>(R"({"type":"credit","bytes":12})").bytes, 12U);
  Must<control::Bye>(R"({"type":"bye","unknown":[1]})");
}

TEST(ControlMessagesTest, WhatIsNotAsThePageSaysIsRefused) {
  for (const char* text : {
           R"({"type":"sing"})",
           R"({"type":"hello"})",
           R"({"type":"hello","protocol":"1"})",
           R"({"type":"hello","protocol":1,"client":7})",
           R"({"type":"start","gang":0,"np":1})",
           R"({"type":"start","gang":1,"np":0})",
           R"({"type":"start","gang":1,"np":65537})",
           R"({"type":"start","gang":1,"np":1,"env":[]})",
           R"({"type":"start","gang":1,"np":1,"env":{"":"x"}})",
           R"({"type":"start","gang":1,"np":1,"env":{"A=B":"x"}})",
           R"({"type":"start","gang":1,"np":1,"env":{"A":1}})",
           R"({"type":"start","gang":1,"np":1,"env":{"A":"\u0000"}})",
           R"({"type":"start","gang":1,"np":1,"objects":7})",
           R"({"type":"start","gang":1,"np":1,"objects":[0]})",
           R"({"type":"send","gang":1})",
           R"({"type":"send","gang":1,"to":[]})",
           R"({"type":"send","gang":1,"to":"some"})",
           R"({"type":"send","gang":1,"to":[-1]})",
           R"({"type":"send","gang":1,"to":[65536]})",
           R"({"type":"signal","gang":1,"to":"all","signo":0})",
           R"({"type":"signal","gang":1,"to":"all","signo":65})",
           R"({"type":"stop"})",
           R"({"type":"stop","gang":1,"grace_s":-1})",
           R"({"type":"stop","gang":1,"grace_s":3601})",
           R"({"type":"stop","gang":1,"interrupt":2})",
           R"({"type":"put"})",
           R"({"type":"drop","object":1.5})",
           R"({"type":"hosts"})",
           R"({"type":"hosts","hosts":{"a":4}})",
           R"({"type":"hosts","hosts":[["a",4]]})",
           R"({"type":"hosts","hosts":[""]})",
           R"({"type":"hosts","hosts":["a\nb"]})",
           R"({"type":"hosts","hosts":["a"],"final":1})",
           R"({"type":"notify","gang":1,"to":"all"})",
           R"({"type":"notify","gang":1,"timestamp":1})",
           R"({"type":"notify","gang":1,"to":"all","timestamp":-1})",
           R"({"type":"notify","gang":1,"to":"all","timestamp":9007199254740993})",
           R"({"type":"warm"})",
           R"({"type":"warm","preload":[]})",
           R"({"type":"warm","preload":"json"})",
           R"({"type":"warm","preload":[""]})",
           R"({"type":"warm","preload":["auto"]})",
           R"({"type":"warm","preload":["?"]})",
           R"({"type":"warm","preload":["??a"]})",
           R"({"type":"warm","preload":["?auto"]})",
           R"({"type":"warm","preload":["a,b"]})",
           R"({"type":"warm","preload":["a b"]})",
           R"({"type":"warm","preload":["a\u0000"]})",
           R"({"type":"warm","preload":["json"],"env":{"A":1}})",
           R"({"type":"credit","bytes":-1})",
       }) {
    const Result<ControlRequest> request = Read(text);
    ASSERT_FALSE(request.ok()) << text;
    EXPECT_EQ(request.status().code(), ErrorCode::kProtocolError) << text;
  }
}

TEST(ControlMessagesTest, OnlySomeHaveABlobAndNoneButAnObjectALargeOne) {
  EXPECT_TRUE(Read(R"({"type":"start","gang":1,"np":1})", kMaxControlBlob).ok());
  EXPECT_FALSE(Read(R"({"type":"start","gang":1,"np":1})", kMaxControlBlob + 1).ok());
  EXPECT_TRUE(Read(R"({"type":"send","gang":1,"to":"all"})", kMaxControlBlob).ok());
  EXPECT_FALSE(Read(R"({"type":"send","gang":1,"to":"all"})", kMaxControlBlob + 1).ok());
  for (const char* text :
       {R"({"type":"hello","protocol":1})", R"({"type":"bye"})", R"({"type":"stop","gang":1})",
        R"({"type":"credit","bytes":1})", R"({"type":"warm","preload":["a"]})",
        R"({"type":"drop","object":1})", R"({"type":"hosts","hosts":[]})"}) {
    EXPECT_FALSE(Read(text, 1).ok()) << text;
  }
}

}  // namespace
}  // namespace hvdray
