// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_credentials.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hvdray {
namespace {

using Way = AwsCredentialPlan::Way;

AwsProfiles Profiles(const std::string& text, AwsFile file = AwsFile::kCredentials) {
  auto profiles = ParseAwsProfiles(text, file, "f");
  EXPECT_TRUE(profiles.ok()) << profiles.status().ToString();
  return profiles.ok() ? *profiles : AwsProfiles();
}

AwsAccountFacts Facts(const std::string& credentials, const std::string& config = "") {
  AwsAccountFacts facts;
  facts.credentials = Profiles(credentials);
  facts.config = Profiles(config, AwsFile::kConfig);
  facts.credentials_path = "/h/.aws/credentials";
  facts.config_path = "/h/.aws/config";
  return facts;
}

Environment With(const std::string& name, const std::string& value) {
  Environment environment;
  environment.Set(name, value);
  return environment;
}

constexpr char kPair[] = "aws_access_key_id = AKIA1\naws_secret_access_key = s+/=1\n";

TEST(AwsCredentialsTest, ProfilesAreSectionsOfKeys) {
  const AwsProfiles profiles = Profiles(
      "# a comment\n[default]\n Region = x\r\nKEY=a = b \n\n; another\n[dev]\ns3 =\n  max = "
      "3\nk=v");
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles.at("default").at("key"), "a = b");
  EXPECT_EQ(profiles.at("dev"), (std::map<std::string, std::string>{{"s3", ""}, {"k", "v"}}));
}

TEST(AwsCredentialsTest, AKeyMayStandInAndHaveAColon) {
  const AwsProfiles profiles = Profiles("[a]\n  k: v:=1\n  s3:\n    max = 3\n  l = 2\n [b]\nk=v\n");
  EXPECT_EQ(profiles.at("a"),
            (std::map<std::string, std::string>{{"k", "v:=1"}, {"s3", ""}, {"l", "2"}}));
}

TEST(AwsCredentialsTest, ProfilesOfTheConfigFileHaveAPrefix) {
  const AwsProfiles profiles = Profiles(
      "[default]\na=1\n[profile dev]\na=2\n[profile \"two words\"]\na=3\n[sso-session x]\na=4\n"
      "[dev]\na=5\n[profiles]\na=6",
      AwsFile::kConfig);
  ASSERT_EQ(profiles.size(), 3U);
  EXPECT_EQ(profiles.at("default").at("a"), "1");
  EXPECT_EQ(profiles.at("dev").at("a"), "2");
  EXPECT_EQ(profiles.at("two words").at("a"), "3");
}

TEST(AwsCredentialsTest, OfTheTwoNamesOfTheDefaultProfileTheLastOneCountsAlone) {
  const AwsProfiles profiles =
      Profiles("[profile default]\na=1\nb=1\n[default]\na=2\n", AwsFile::kConfig);
  EXPECT_EQ(profiles.at("default"), (std::map<std::string, std::string>{{"a", "2"}}));
}

TEST(AwsCredentialsTest, AFaultyLineIsToldByItsNumberAndNotByItsWords) {
  const auto fault = [](const std::string& text) {
    return ParseAwsProfiles(text, AwsFile::kCredentials, "f").status();
  };
  EXPECT_EQ(fault("[a]\nsecret-word\n").message(), "f:2: neither a section nor a key");
  EXPECT_EQ(fault("k=secret").message(), "f:1: a key outside of any section");
  EXPECT_EQ(fault("[a]\n[b").message(), "f:2: a section without ]");
  EXPECT_EQ(fault(std::string(size_t{2} << 20, '#')).message(), "f: larger than 1 MiB");
}

TEST(AwsCredentialsTest, TheClusterFileBeatsTheEnvironmentAndThatBeatsTheFiles) {
  AwsAccountFacts facts = Facts(std::string("[default]\n") + kPair);
  Environment environment({{"AWS_ACCESS_KEY_ID", "AKIA2"},
                           {"AWS_SECRET_ACCESS_KEY", "s2"},
                           {"AWS_SESSION_TOKEN", "t2"}});
  facts.given = {{"aws_access_key_id", "AKIA3"}, {"aws_secret_access_key", "s3"}};
  auto plan = PlanAwsCredentials(facts, environment);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->base.access_key_id, "AKIA3");
  EXPECT_EQ(plan->base.session_token.view(), "");
  facts.given.clear();
  plan = PlanAwsCredentials(facts, environment);
  EXPECT_EQ(plan->base.access_key_id, "AKIA2");
  EXPECT_EQ(plan->base.session_token.view(), "t2");
  EXPECT_EQ(plan->base.source, "the environment");
  plan = PlanAwsCredentials(facts, Environment());
  EXPECT_EQ(plan->way, Way::kStatic);
  EXPECT_EQ(plan->base.secret_access_key.view(), "s+/=1");
  EXPECT_EQ(plan->base.source, "profile default of /h/.aws/credentials");
}

/// What botocore 1.44.8 takes, and with it Ray, in the same places.
TEST(AwsCredentialsTest, TheOrderIsBotocores) {
  const AwsAccountFacts facts = Facts(std::string("[default]\naws_security_token = t\n") + kPair);
  auto plan = PlanAwsCredentials(facts, With("AWS_SECRET_ACCESS_KEY", "s2"));
  ASSERT_TRUE(plan.ok()) << "a secret alone says nothing";
  EXPECT_EQ(plan->base.access_key_id, "AKIA1");
  EXPECT_EQ(plan->base.session_token.view(), "t");
  const Environment older({{"AWS_ACCESS_KEY_ID", "AKIA2"},
                           {"AWS_SECRET_ACCESS_KEY", "s2"},
                           {"AWS_SECURITY_TOKEN", "t2"}});
  EXPECT_EQ(PlanAwsCredentials(facts, older)->base.session_token.view(), "t2");
  const std::string process = "[default]\ncredential_process = /bin/x\n";
  EXPECT_EQ(PlanAwsCredentials(Facts("", process + kPair), Environment())->way, Way::kProcess);
  EXPECT_EQ(PlanAwsCredentials(Facts(process + kPair), Environment())->way, Way::kStatic);
  const Environment both({{"AWS_PROFILE", "one"}, {"AWS_DEFAULT_PROFILE", "two"}, {"HOME", "/no"}});
  EXPECT_EQ(ReadAwsAccount({}, both)->profile, "two");
}

TEST(AwsCredentialsTest, HalfAPairIsRefused) {
  const auto plan = PlanAwsCredentials(Facts(""), With("AWS_ACCESS_KEY_ID", "AKIA"));
  EXPECT_EQ(plan.status().message(), "AWS_SECRET_ACCESS_KEY of AWS is missing in the environment");
}

TEST(AwsCredentialsTest, AMistypedKeyOfTheClusterFileIsRefused) {
  AwsAccountFacts facts = Facts("");
  facts.given = {{"aws_acces_key_id", "AKIA"}};
  const auto plan = PlanAwsCredentials(facts, Environment());
  EXPECT_EQ(plan.status().code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(plan.status().hint(), "did you mean aws_access_key_id?");
}

TEST(AwsCredentialsTest, ARoleIsAssumedByItsSourceProfile) {
  AwsAccountFacts facts =
      Facts(std::string("[base]\n") + kPair,
            "[profile work]\nrole_arn = arn:r\nsource_profile = base\nexternal_id = e\n");
  facts.profile = "work";
  auto plan = PlanAwsCredentials(facts, Environment());
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->way, Way::kAssumeRole);
  EXPECT_EQ(plan->role_arn, "arn:r");
  EXPECT_EQ(plan->external_id, "e");
  EXPECT_EQ(plan->session_name, "hvdray");
  EXPECT_EQ(plan->base.access_key_id, "AKIA1");
  facts.config["work"]["source_profile"] = "none";
  EXPECT_EQ(PlanAwsCredentials(facts, Environment()).status().message(),
            "AWS profile none, source_profile of work, has no access key");
}

/// The plan of a default profile with these keys.
Result<AwsCredentialPlan> PlanOf(const std::string& keys) {
  return PlanAwsCredentials(Facts("", "[default]\n" + keys), Environment());
}

AwsRun Ending(int exit_code, const std::string& output) {
  return [=](const std::vector<std::string>&) -> Result<AwsCommandEnd> {
    AwsCommandEnd end;
    end.exit_code = exit_code;
    end.output = Secret(output);
    end.last_words = "token expired";
    return end;
  };
}

TEST(AwsCredentialsTest, CredentialProcessIsRun) {
  const auto plan = PlanOf("credential_process = /bin/x 'a b'");
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->way, Way::kProcess);
  EXPECT_EQ(plan->command, (std::vector<std::string>{"/bin/sh", "-c", "/bin/x 'a b'"}));
  const auto found = RunForAwsCredentials(
      *plan, Ending(0, R"({"Version": 1, "AccessKeyId": "ASIA", "SecretAccessKey": "s",
                           "SessionToken": "t", "Expiration": "1970-01-01T00:01:00Z"})"));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key_id, "ASIA");
  EXPECT_EQ(found->session_token.view(), "t");
  EXPECT_EQ(found->expires, WallTime(std::chrono::minutes(1)));
  const Status failed = RunForAwsCredentials(*plan, Ending(7, "s3cret")).status();
  EXPECT_EQ(failed.code(), ErrorCode::kCloudDenied);
  EXPECT_NE(failed.message().find("code 7: token expired"), std::string::npos);
  const Status garbage = RunForAwsCredentials(*plan, Ending(0, "s3cret")).status();
  EXPECT_EQ(garbage.code(), ErrorCode::kProtocolError);
  EXPECT_EQ((failed.ToString() + garbage.ToString()).find("s3cret"), std::string::npos);
}

TEST(AwsCredentialsTest, TheAwsCliGivesWhatOnlyItCan) {
  const std::string by_hand = "export-credentials --profile default --format env";
  const std::pair<const char*, std::string> rows[] = {
      {"sso_session = x", "aws sso login --profile default"},
      {"sso_start_url = x", "aws sso login --profile default"},
      {"role_arn = a\ncredential_source = Environment", by_hand},
      {"role_arn = a\nmfa_serial = m\nsource_profile = default", by_hand},
      {"role_arn = a\nsource_profile = s\n[profile s]\nsso_session = x",
       "aws sso login --profile s"},
      {"role_arn = a\nsource_profile = s\n[profile s]\nrole_arn = b", by_hand}};
  for (const auto& [keys, hint] : rows) {
    const auto plan = PlanOf(keys);
    ASSERT_TRUE(plan.ok()) << keys << plan.status().ToString();
    EXPECT_EQ(plan->way, Way::kProcess) << keys;
    EXPECT_EQ(plan->command[1] + " " + plan->command[2], "configure export-credentials") << keys;
    const AwsRun is_missing = [](const std::vector<std::string>&) -> Result<AwsCommandEnd> {
      return Status(ErrorCode::kAgentStartFailed, "aws: No such file or directory");
    };
    const Status missing = RunForAwsCredentials(*plan, is_missing).status();
    EXPECT_EQ(missing.code(), ErrorCode::kNotSupported) << keys;
    EXPECT_NE(missing.hint().find("export-credentials --profile default"), std::string::npos);
    const AwsRun is_silent = [](const std::vector<std::string>&) -> Result<AwsCommandEnd> {
      return Status(ErrorCode::kDeadlineExceeded, "no answer in time");
    };
    for (const AwsRun& run : {Ending(255, ""), is_silent}) {
      const Status failed = RunForAwsCredentials(*plan, run).status();
      EXPECT_NE(failed.hint().find(hint), std::string::npos) << keys << ": " << failed.hint();
    }
  }
}

TEST(AwsCredentialsTest, WithoutAnyTheContainerOrTheMachineIsAsked) {
  EXPECT_EQ(PlanAwsCredentials(Facts(""), Environment())->way, Way::kMachine);
  const Environment container = With("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x");
  EXPECT_EQ(PlanAwsCredentials(Facts(""), container)->way, Way::kContainer);
}

TEST(AwsCredentialsTest, TheRegionOfTheFileBeatsAllOthers) {
  const AwsAccountFacts facts = Facts("", "[default]\nregion = eu-west-1\n");
  const Environment environment = With("AWS_REGION", "us-east-2");
  EXPECT_EQ(*ChooseAwsRegion("us-west-1", facts, environment), "us-west-1");
  EXPECT_EQ(*ChooseAwsRegion("", facts, environment), "us-east-2");
  EXPECT_EQ(*ChooseAwsRegion("", facts, Environment()), "eu-west-1");
  EXPECT_EQ(*ChooseAwsRegion("", Facts(""), Environment()), "us-west-2");
  const auto wrong = ChooseAwsRegion("US-West-2/", facts, environment);
  EXPECT_EQ(wrong.status().code(), ErrorCode::kSpecInvalid);
}

TEST(AwsCredentialsTest, TimesAreThoseOfUtc) {
  EXPECT_EQ(ParseAwsTime("1970-01-02T00:00:01Z"), WallTime(std::chrono::seconds(24 * 3600 + 1)));
  EXPECT_EQ(ParseAwsTime("1970-01-01T00:00:01.123456Z"), WallTime(std::chrono::seconds(1)));
  for (const char* text : {"", "tomorrow", "1970-01-01T00:00:01", "1970-01-01T00:00:01+02:00"}) {
    EXPECT_EQ(ParseAwsTime(text), std::nullopt) << text;
  }
}

TEST(AwsCredentialsTest, TheMachineServesATokenThenARoleThenCredentials) {
  std::vector<std::string> asked;
  const AwsSend send = [&asked](const AwsRequest& request) -> Result<HttpReply> {
    asked.push_back(request.method + " " + request.url);
    EXPECT_FALSE(request.may_use_proxy);
    if (asked.size() == 1) return HttpReply{200, "TOKEN\n"};
    EXPECT_EQ(request.headers.at(0).second, "TOKEN");
    if (asked.size() == 2) return HttpReply{200, "role\n"};
    return HttpReply{200,
                     R"({"Code": "Success", "AccessKeyId": "ASIA", "SecretAccessKey": "s",
                         "Token": "t", "Expiration": "1970-01-01T00:01:00Z"})"};
  };
  const Environment environment = With("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://m/");
  const auto found = FetchAwsCredentials(Way::kMachine, environment, send);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->access_key_id, "ASIA");
  EXPECT_EQ(found->session_token.view(), "t");
  EXPECT_EQ(found->expires, WallTime(std::chrono::minutes(1)));
  EXPECT_EQ(asked, (std::vector<std::string>{
                       "PUT http://m/latest/api/token",
                       "GET http://m/latest/meta-data/iam/security-credentials/",
                       "GET http://m/latest/meta-data/iam/security-credentials/role"}));
}

TEST(AwsCredentialsTest, WithoutAMetadataServiceThereAreNone) {
  const AwsSend send = [](const AwsRequest&) -> Result<HttpReply> {
    return Status(ErrorCode::kConnectTimeout, "no connection");
  };
  const auto found = FetchAwsCredentials(Way::kMachine, Environment(), send);
  EXPECT_EQ(found.status().code(), ErrorCode::kCloudDenied);
  EXPECT_EQ(found.status().message(), "no AWS credentials found");
}

TEST(AwsCredentialsTest, AServedAnswerWithoutAKeyIsRefused) {
  for (const char* body : {"", "[]", "{}", R"({"AccessKeyId": "a"})", R"({"AccessKeyId": 1})",
                           R"({"Code": "AssumeRoleUnauthorizedAccess"})"}) {
    EXPECT_EQ(ParseServedCredentials(body, "s").status().code(), ErrorCode::kProtocolError) << body;
  }
}

}  // namespace
}  // namespace hvdray
