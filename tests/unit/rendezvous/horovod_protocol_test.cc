// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/horovod_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

int ToStatus(std::string_view method, std::string_view target, bool has_length = true) {
  return ParseKvRequest(method, target, has_length).status;
}

TEST(HorovodProtocolTest, SplitsAPathIntoScopeAndKey) {
  const ParsedKvRequest parsed = ParseKvRequest("PUT", "/global/rank_3", true);
  ASSERT_EQ(parsed.status, 200);
  EXPECT_EQ(parsed.call.verb, KvVerb::kPut);
  EXPECT_EQ(parsed.call.scope, "global");
  EXPECT_EQ(parsed.call.key, "rank_3");
  EXPECT_EQ(parsed.call.scope_kind, ScopeKind::kMesh);
  EXPECT_EQ(parsed.call.key_kind, KeyKind::kRankName);
}

TEST(HorovodProtocolTest, KnowsTheThreeVerbs) {
  EXPECT_EQ(ParseKvRequest("GET", "/a/b", false).call.verb, KvVerb::kGet);
  EXPECT_EQ(ParseKvRequest("DELETE", "/a/b", false).call.verb, KvVerb::kDelete);
  EXPECT_EQ(ToStatus("GET", "/a/b", false), 200);
  EXPECT_EQ(ToStatus("DELETE", "/a/b", false), 200);
}

TEST(HorovodProtocolTest, RefusesOtherMethods) {
  EXPECT_EQ(ToStatus("HEAD", "/global/0"), 405);
  for (const char* method : {"POST", "OPTIONS", "CONNECT", "TRACE", "PATCH", "put", "get", ""}) {
    EXPECT_EQ(ToStatus(method, "/global/0"), 501) << method;
  }
}

TEST(HorovodProtocolTest, RefusesPathsThatAreNotScopeAndKey) {
  for (const char* target : {"", "/", "//", "/global", "/global/", "//0", "global/0", "/a/b/c",
                             "/a//b", "/a/b/", "http://127.0.0.1/a/b", "*", "127.0.0.1:80"}) {
    EXPECT_EQ(ToStatus("GET", target), 400) << target;
  }
}

TEST(HorovodProtocolTest, RefusesBytesThatALogCouldNotShow) {
  using std::string_literals::operator""s;
  for (const std::string& key : {"a b"s, "a\tb"s, "a\0b"s, "a\x7f"s, "\x80"s, "\xC2"s, "\xC0\xAF"s,
                                 "\xE0\x80\xAF"s, "\xED\xA0\x80"s, "\xF4\x90\x80\x80"s,
                                 "\xF5\x80\x80\x80"s, "\xE2\x82"s, "\xC2\x85"s, "\xE2\x28\xA1"s}) {
    EXPECT_EQ(ToStatus("GET", "/global/" + key), 400) << testing::PrintToString(key);
    EXPECT_EQ(ToStatus("GET", "/" + key + "/0"), 400) << testing::PrintToString(key);
  }
  EXPECT_EQ(ToStatus("GET", "/local_kn\xC3\xB6ten/0"), 200);
  EXPECT_EQ(ToStatus("GET", "/local_\xE6\xA9\x9F/\xF0\x9F\x90\x8E"), 200);
}

TEST(HorovodProtocolTest, TakesPercentSignsAndQueriesAsTheyAre) {
  const ParsedKvRequest parsed = ParseKvRequest("GET", "/a%2Fb/c?d=e#f", false);
  ASSERT_EQ(parsed.status, 200);
  EXPECT_EQ(parsed.call.scope, "a%2Fb");
  EXPECT_EQ(parsed.call.key, "c?d=e#f");
}

TEST(HorovodProtocolTest, PutNeedsAContentLength) {
  EXPECT_EQ(ToStatus("PUT", "/global/0", false), 411);
  EXPECT_EQ(ToStatus("PUT", "/global", false), 400);
}

TEST(HorovodProtocolTest, ClassifiesScopes) {
  for (const char* scope :
       {"global", "local_node7", "local_a.b-c_d", "local_localhost", "cross_0", "cross_127"}) {
    EXPECT_EQ(KindOfScope(scope), ScopeKind::kMesh) << scope;
  }
  for (const char* scope : {"global_process_set_hash_0", "global_process_set_hash_9af3cd01e4",
                            "local_node7_process_set_hash_ff", "cross_3_process_set_hash_12ab",
                            "local_x_process_set_hash_1_process_set_hash_2"}) {
    EXPECT_EQ(KindOfScope(scope), ScopeKind::kProcessSet) << scope;
  }
  for (const char* scope :
       {"", "globals", "Global", "local_", "local", "cross_", "cross_x", "cross_01", "cross_-1",
        "runfunc", "runfunc_result", "global_process_set_hash_", "global_process_set_hash_XYZ",
        "global_process_set_hash_AB", "other_process_set_hash_12"}) {
    EXPECT_EQ(KindOfScope(scope), ScopeKind::kOther) << scope;
  }
  EXPECT_TRUE(IsLastScopeOfInit("cross_0_process_set_hash_ab12"));
  EXPECT_FALSE(IsLastScopeOfInit("cross_0"));
  EXPECT_FALSE(IsLastScopeOfInit("local_a_process_set_hash_ab12"));
  EXPECT_EQ(KindOfScope("rank_and_size"), ScopeKind::kRankAndSize);
  EXPECT_EQ(KindOfScope("worker_addresses"), ScopeKind::kWorkerAddresses);
}

TEST(HorovodProtocolTest, OnlyMeshScopesAreMesh) {
  EXPECT_TRUE(ParseKvRequest("GET", "/global/0", false).call.is_mesh());
  EXPECT_TRUE(ParseKvRequest("GET", "/cross_1_process_set_hash_a/0", false).call.is_mesh());
  EXPECT_FALSE(ParseKvRequest("GET", "/rank_and_size/h:0", false).call.is_mesh());
  EXPECT_FALSE(ParseKvRequest("GET", "/worker_addresses/h:0", false).call.is_mesh());
  EXPECT_FALSE(ParseKvRequest("GET", "/runfunc/func", false).call.is_mesh());
}

TEST(HorovodProtocolTest, NumbersAreCanonicalDecimals) {
  EXPECT_EQ(NumberOfKey("0"), 0u);
  EXPECT_EQ(NumberOfKey("999999999"), 999999999u);
  EXPECT_EQ(NumberOfKey("rank_17"), 17u);
  for (const char* key :
       {"", "00", "01", "1000000000", "99999999999999999999", "-1", "+1", " 1", "1 ", "1a", "0x1",
        "rank_", "rank_01", "rank_x", "rank_-1", "rank_rank_1"}) {
    EXPECT_EQ(NumberOfKey(key), std::nullopt) << key;
    EXPECT_EQ(KindOfKey(key), KeyKind::kOther) << key;
  }
  EXPECT_EQ(KindOfKey("12"), KeyKind::kNumber);
  EXPECT_EQ(KindOfKey("rank_12"), KeyKind::kRankName);
}

}  // namespace
}  // namespace hvdray
