// SPDX-License-Identifier: Apache-2.0
// Against the cases that AWS publishes (aws-sig-v4-test-suite).
#include "cluster/cloud/aws_signature.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hvdray {
namespace {

constexpr char kTime[] = "20150830T123600Z";
const WallTime kNow = std::chrono::system_clock::from_time_t(1440938160);

AwsSigner Signer(std::string_view token = "") {
  return {.region = "us-east-1",
          .service = "service",
          .access_key_id = "AKIDEXAMPLE",
          .secret_access_key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
          .session_token = Secret(token)};
}

std::string Find(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "none";
}

struct Case {
  std::string method;
  HttpHeaders headers;
  std::string body, signed_headers, signature;
};

TEST(AwsSignatureTest, PublishedCasesHaveThePublishedSignatures) {
  const std::string form = "application/x-www-form-urlencoded";
  const Case cases[] = {
      {"GET",
       {},
       "",
       "host;x-amz-date",
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"POST",
       {},
       "",
       "host;x-amz-date",
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"POST",
       {{"My-Header1", "value1"}},
       "",
       "host;my-header1;x-amz-date",
       "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
      {"POST",
       {{"Content-Type", form}},
       "Param1=value1",
       "content-type;host;x-amz-date",
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
      {"POST",
       {{"Content-Type", form + "; charset=utf8"}},
       "Param1=value1",
       "content-type;host;x-amz-date",
       "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"},
  };
  for (const Case& each : cases) {
    const Url url{.is_tls = true, .host = "example.amazonaws.com", .port = 443, .target = "/"};
    const HttpHeaders sent =
        SignAwsRequest(Signer(), each.method, url, each.headers, each.body, kNow);
    EXPECT_EQ(Find(sent, "Host"), "example.amazonaws.com");
    EXPECT_EQ(Find(sent, "X-Amz-Date"), kTime);
    EXPECT_EQ(Find(sent, "Authorization"),
              "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
              "SignedHeaders=" +
                  each.signed_headers + ", Signature=" + each.signature);
  }
}

TEST(AwsSignatureTest, ATokenIsSentAndSigned) {
  const Url url{.host = "127.0.0.1", .port = 5000, .target = "/a b%20c/"};
  const HttpHeaders sent = SignAwsRequest(Signer("tok+en=="), "POST", url, {}, "", kNow);
  EXPECT_EQ(Find(sent, "Host"), "127.0.0.1:5000");
  EXPECT_EQ(Find(sent, "X-Amz-Security-Token"), "tok+en==");
  EXPECT_TRUE(Find(sent, "Authorization")
                  .ends_with("SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="
                             "da50698b982a2d219ddc0c72c68389426cfb2a2c17b6669743dc6bf7f606f41d"))
      << Find(sent, "Authorization");
}

TEST(AwsSignatureTest, LibcurlSignsARequestToEc2Alike) {
  AwsSigner signer = Signer("tok+en==");
  signer.region = "us-west-2";
  signer.service = "ec2";
  const HttpHeaders form = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  const Url url{.host = "127.0.0.1", .port = 43423, .target = "/"};
  const HttpHeaders sent = SignAwsRequest(signer, "POST", url, form,
                                          "Action=DescribeInstances&Version=2016-11-15", kNow);
  // As `curl --aws-sigv4 aws:amz:us-west-2:ec2` 7.88.1 sent it.
  EXPECT_EQ(Find(sent, "Authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-west-2/ec2/aws4_request, "
            "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature="
            "d6f7135ecff080e68421ae3e1af06c26eebda54c61dd3de9f45325939b025090");
}

}  // namespace
}  // namespace hvdray
