// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_address.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

Environment With(std::map<std::string, std::string> values) {
  return Environment(std::move(values));
}

std::string UrlOf(const std::string& text) {
  const Result<RayAddress> address = ParseRayAddress(text);
  return address.ok() ? address->Url() : address.status().ToString();
}

TEST(RayAddressTest, HttpAndHttpsAddressesAreTakenAsTheyAre) {
  EXPECT_EQ(UrlOf("http://127.0.0.1:8265"), "http://127.0.0.1:8265");
  EXPECT_EQ(UrlOf("http://head:8265/"), "http://head:8265");
  EXPECT_EQ(UrlOf(" https://ray.example.com/team/a// \n"), "https://ray.example.com/team/a");
  EXPECT_EQ(UrlOf("https://ray.example.com:8443"), "https://ray.example.com:8443");
  EXPECT_EQ(UrlOf("http://[fe80::1]:8265"), "http://[fe80::1]:8265");
  EXPECT_EQ(UrlOf("http://head"), "http://head");
}

TEST(RayAddressTest, PartsAreWhatConnectsTo) {
  const Result<RayAddress> address = ParseRayAddress("https://[::1]/ray");
  ASSERT_TRUE(address.ok());
  EXPECT_TRUE(address->is_tls);
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 443);
  EXPECT_EQ(address->prefix, "/ray");
}

std::string Proxy(const std::string& url, std::map<std::string, std::string> values) {
  const auto proxy = FindRayProxy(*ParseRayAddress(url), With(std::move(values)));
  if (!proxy.ok()) return proxy.status().message();
  if (!proxy->has_value()) return "none";
  return (*proxy)->user + ":" + (*proxy)->password + "@" + (*proxy)->host + ":" +
         std::to_string((*proxy)->port);
}

TEST(RayProxyTest, OnlyAnHttpsDashboardElsewhereHasOne) {
  const std::map<std::string, std::string> set = {{"HTTPS_PROXY", "http://proxy:3128/"}};
  EXPECT_EQ(Proxy("https://ray.example.com", set), ":@proxy:3128");
  EXPECT_EQ(Proxy("http://ray.example.com", set), "none");
  EXPECT_EQ(Proxy("https://127.0.0.1:8265", set), "none");
  EXPECT_EQ(Proxy("https://localhost", set), "none");
  EXPECT_EQ(Proxy("https://ray.example.com", {}), "none");
  EXPECT_EQ(Proxy("https://a.b", {{"HTTPS_PROXY", "x:1"}, {"https_proxy", "y"}}), ":@y:80");
}

TEST(RayProxyTest, WhatNoProxyNamesIsReachedDirectly) {
  const auto with = [](const std::string& list) {
    return Proxy("https://ray.example.com:8443",
                 {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", list}});
  };
  for (const char* list : {"*", "example.com", ".example.com", "x, ray.example.com",
                           "ray.example.com:8443", "localhost ray.example.com", ".Example.COM"}) {
    EXPECT_EQ(with(list), "none") << list;
  }
  for (const char* list : {"ample.com", "ray.example.com:443", "example.org", ",", ""}) {
    EXPECT_EQ(with(list), ":@p:1") << list;
  }
  EXPECT_EQ(Proxy("https://[fd00::7]", {{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "[fd00::7]"}}),
            "none");
}

TEST(RayProxyTest, ALoginIsTakenAndNeverTold) {
  const std::string url = "https://ray.example.com";
  EXPECT_EQ(Proxy(url, {{"HTTPS_PROXY", "http://me:a%40b%3A@[::1]:8080"}}), "me:a@b:@::1:8080");
  for (const char* wrong : {"socks5://me:secret@p:1", "http://me:secret@", "http://secret:port"}) {
    const std::string said = Proxy(url, {{"HTTPS_PROXY", wrong}});
    EXPECT_EQ(said.find("secret"), std::string::npos) << said;
    ExpectSays(said, {"HTTPS_PROXY", "not", "HTTP proxy"});
  }
}

struct Refused {
  std::string text;
  std::string said;
  std::string hint;
};

TEST(RayAddressTest, WhatIsNoDashboardIsRefusedWithWhatToWriteInstead) {
  const std::vector<Refused> kCases = {
      {"10.0.0.10:6379", "GCS address", "write http://10.0.0.10:8265"},
      {"10.0.0.10:8265", "http:// is missing", "write http://10.0.0.10:8265"},
      {"[fe80::1]:6379", "GCS address", "write http://[fe80::1]:8265"},
      {"head", "GCS address", "write http://head:8265"},
      {"auto", "GCS address", "write http://HOST:8265"},
      {"ray://head:10001", "Ray's Python client", "write http://head:8265"},
      {"ray://head:10001/ns", "Ray's Python client", "write http://head:8265"},
      {"ftp://head", "neither http:// nor https://", "write http://head:8265"},
      {"", "GCS address", "write http://HOST:8265"},
      {"http://", "no host", "HOST:8265"},
      {"http://a b:1", "no host", "HOST:8265"},
      {"http://head:0", "port", ""},
      {"http://head:65536", "port", ""},
      {"http://head:80x", "port", ""},
      {"http://fe80::1", "port", ""},
      {"http://head:8265/#/jobs", "invalid path", "without ? and #"},
      {"http://head\r\nX: y", "no host", ""},
  };
  for (const Refused& refused : kCases) {
    const Result<RayAddress> address = ParseRayAddress(refused.text);
    ASSERT_FALSE(address.ok()) << refused.text;
    EXPECT_EQ(address.status().code(), ErrorCode::kSpecInvalid);
    EXPECT_NE(address.status().message().find(refused.said), std::string::npos)
        << address.status().ToString();
    EXPECT_NE(address.status().hint().find(refused.hint), std::string::npos)
        << address.status().ToString();
    EXPECT_EQ(address.status().ToString().find('\r'), std::string::npos);
  }
}

TEST(RayAddressTest, APasswordInAnAddressIsRefusedAndNotShown) {
  const Result<RayAddress> address = ParseRayAddress("http://me:geheim@head:8265");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.status().ToString().find("geheim"), std::string::npos);
}

TEST(RayAddressTest, TheFlagBeatsBothVariables) {
  const Environment environment =
      With({{"RAY_API_SERVER_ADDRESS", "http://b:1"}, {"RAY_ADDRESS", "http://c:1"}});
  const auto flag = ResolveRayAddress("http://a:1", "flag --ray-address", environment);
  ASSERT_TRUE(flag.ok());
  EXPECT_EQ(flag->Url(), "http://a:1");
  EXPECT_EQ(flag->origin, "flag --ray-address");
  const auto variable = ResolveRayAddress("", "", environment);
  ASSERT_TRUE(variable.ok());
  EXPECT_EQ(variable->Url(), "http://b:1");
  EXPECT_EQ(variable->origin, "env RAY_API_SERVER_ADDRESS");
  const auto ray = ResolveRayAddress("", "", With({{"RAY_ADDRESS", "http://c:1"}}));
  ASSERT_TRUE(ray.ok());
  EXPECT_EQ(ray->origin, "env RAY_ADDRESS");
  EXPECT_EQ(ray->note, "");
  const auto none = ResolveRayAddress("", "", With({{"RAY_ADDRESS", ""}}));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->Url(), "http://127.0.0.1:8265");
  EXPECT_EQ(none->origin, "default");
}

TEST(RayAddressTest, InsideANodeRaysOwnAddressNamesTheHostAndThatIsSaid) {
  const auto inside = ResolveRayAddress("", "", With({{"RAY_ADDRESS", "10.0.0.10:6379"}}));
  ASSERT_TRUE(inside.ok());
  EXPECT_EQ(inside->Url(), "http://10.0.0.10:8265");
  ExpectSays(inside->note, {"RAY_ADDRESS=10.0.0.10:6379", "GCS address"});
  const auto automatic = ResolveRayAddress("", "", With({{"RAY_ADDRESS", "auto"}}));
  ASSERT_TRUE(automatic.ok());
  EXPECT_EQ(automatic->Url(), "http://127.0.0.1:8265");
}

TEST(RayAddressTest, AnErrorNamesTheVariableThatHeldTheAddress) {
  const auto client = ResolveRayAddress("", "", With({{"RAY_ADDRESS", "ray://head:10001"}}));
  ASSERT_FALSE(client.ok());
  EXPECT_TRUE(client.status().message().starts_with("env RAY_ADDRESS: "));
  const auto api = ResolveRayAddress("", "", With({{"RAY_API_SERVER_ADDRESS", "head:6379"}}));
  ASSERT_FALSE(api.ok());
  EXPECT_TRUE(api.status().message().starts_with("env RAY_API_SERVER_ADDRESS: "));
}

TEST(RayVerifyTest, TrueFalseAndPathsAreToldApart) {
  EXPECT_TRUE(ParseRayVerify("").is_checked);
  EXPECT_TRUE(ParseRayVerify("true").is_checked);
  EXPECT_EQ(ParseRayVerify("true").path, "");
  EXPECT_FALSE(ParseRayVerify("false").is_checked);
  EXPECT_EQ(ParseRayVerify("/etc/ca.pem").path, "/etc/ca.pem");
  EXPECT_TRUE(ParseRayVerify("/etc/ca.pem").is_checked);
}

TEST(RayHeadersTest, TheFlagReplacesTheVariable) {
  const Environment environment = With({{"RAY_JOB_HEADERS", R"({"X-A": "env"})"}});
  const auto inherited = ResolveRayHeaders("", environment);
  ASSERT_TRUE(inherited.ok());
  EXPECT_EQ(*inherited, (HttpHeaders{{"X-A", "env"}}));
  const auto given = ResolveRayHeaders(R"({"X-B": "1", "X-C": "2"})", environment);
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(*given, (HttpHeaders{{"X-B", "1"}, {"X-C", "2"}}));
  EXPECT_TRUE(ResolveRayHeaders("", Environment())->empty());
}

TEST(RayHeadersTest, WhatIsNoHeaderIsRefusedWithoutItsValue) {
  for (const std::string text :
       {"geheim", "[\"geheim\"]", R"({"X-A": ["geheim"]})", R"({"X A": "geheim"})",
        R"({"": "geheim"})", R"({"X-A": "geheim\r\nX-B: 1"})", R"({"content-LENGTH": "geheim"})",
        R"({"X-A": "geheim")"}) {
    const auto headers = ResolveRayHeaders(text, Environment());
    ASSERT_FALSE(headers.ok()) << text;
    EXPECT_EQ(headers.status().code(), ErrorCode::kSpecInvalid);
    EXPECT_EQ(headers.status().ToString().find("geheim"), std::string::npos)
        << headers.status().ToString();
    EXPECT_TRUE(headers.status().message().starts_with("--ray-headers: "));
  }
}

}  // namespace
}  // namespace hvdray
