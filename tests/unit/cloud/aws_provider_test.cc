// SPDX-License-Identifier: Apache-2.0
// The provider on an edge by hand: what it calls, in which order, and when it waits. What AWS makes
// of the calls is in tests/integration/provider_test.py.
#include "cluster/cloud/aws_provider.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "cluster/cloud/key_files.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

/// Answers by action, keeps what was asked, and lets no time pass but by sleep().
class HandEdge {
 public:
  struct Call {
    std::string action;
    std::string body;
  };
  using Answer = std::function<Result<HttpReply>(const AwsRequest&)>;

  AwsEdge Edge() {
    AwsEdge edge;
    edge.send = [this](const AwsRequest& request) { return Send(request); };
    edge.sleep = [this](Duration duration) {
      sleeps.push_back(duration);
      now += duration;
      return !is_cancelled;
    };
    edge.random = [] { return 0.5; };
    edge.now = [this] { return now; };
    edge.wall_now = [this] { return WallTime() + now.time_since_epoch(); };
    edge.note = [this](const std::string& line) { notes.push_back(line); };
    return edge;
  }

  /// The next answers to `action`; the last one stays.
  void Say(const std::string& action, std::deque<Result<HttpReply>> answers) {
    answers_.insert_or_assign(action, std::move(answers));
  }
  std::vector<std::string> Bodies(const std::string& action) const {
    std::vector<std::string> bodies;
    for (const Call& call : calls) {
      if (call.action == action) bodies.push_back(call.body);
    }
    return bodies;
  }

  std::vector<Call> calls;
  std::vector<Duration> sleeps;
  std::vector<std::string> notes;
  std::vector<std::string> keys;  ///< Access keys that signed.
  TimePoint now{};
  bool is_cancelled = false;

 private:
  Result<HttpReply> Send(const AwsRequest& request) {
    if (request.body.empty()) return Status(ErrorCode::kConnectTimeout, "no metadata service");
    constexpr size_t kPrefix = std::string_view("Action=").size();
    const std::string action = request.body.substr(kPrefix, request.body.find('&') - kPrefix);
    calls.push_back({action, request.body});
    keys.push_back(request.signer->access_key_id);
    if (is_cancelled) return Status(ErrorCode::kCancelled, "cancelled");
    const auto found = answers_.find(action);
    if (found == answers_.end()) return HttpReply{200, "<R/>"};
    Result<HttpReply> answer = found->second.front();
    if (found->second.size() > 1) found->second.pop_front();
    return answer;
  }

  std::map<std::string, std::deque<Result<HttpReply>>> answers_;
};

HttpReply Refusal(const std::string& code, int status = 400) {
  return {status, "<Response><Errors><Error><Code>" + code +
                      "</Code><Message>words</Message></Error></Errors></Response>"};
}

HttpReply Machines(const std::vector<std::string>& ids, const std::string& state = "pending") {
  std::string text = "<R><instancesSet>";
  for (const std::string& id : ids) {
    text += "<item><instanceId>" + id + "</instanceId><instanceState><name>" + state +
            "</name></instanceState></item>";
  }
  return {200, text + "</instancesSet></R>"};
}

class AwsProviderTest : public testing::Test {
 protected:
  AwsProviderTest() {
    const auto spec =
        ParseClusterSpec("cluster_name: c\nprovider: {type: aws, region: us-west-2}\n", "c.yaml");
    EXPECT_TRUE(spec.ok()) << spec.status().ToString();
    const Environment environment({{"AWS_ACCESS_KEY_ID", "AKIA"},
                                   {"AWS_SECRET_ACCESS_KEY", "s"},
                                   {"AWS_CONFIG_FILE", "/nonexistent"},
                                   {"AWS_SHARED_CREDENTIALS_FILE", "/nonexistent"}});
    auto made =
        MakeAwsProviderOn(*spec, environment, edge_.Edge(), [this] { edge_.is_cancelled = true; });
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    provider_ = std::move(*made);
  }

  static CreateRequest Request(int count, const std::string& market = "spot") {
    CreateRequest request;
    request.node.node_type = "gpu";
    request.node.launch_hash = "h";
    request.node.node_config = {{"SubnetIds", {"subnet-1", "subnet-2"}}};
    if (market == "spot") {
      request.node.node_config["InstanceMarketOptions"] = {{"MarketType", "spot"}};
    }
    request.count = count;
    request.request_id = "up-1";
    return request;
  }

  /// "subnet-1 x3" for each RunInstances, with "spot" where it asks for that.
  std::vector<std::string> Launches() const {
    std::vector<std::string> launches;
    for (const std::string& body : edge_.Bodies("RunInstances")) {
      const auto field = [&body](const std::string& name) {
        const size_t at = body.find("&" + name + "=") + name.size() + 2;
        return body.substr(at, body.find('&', at) - at);
      };
      const bool is_spot = body.find("MarketType=spot") != std::string::npos;
      launches.push_back(field("SubnetId") + " x" + field("MaxCount") + (is_spot ? " spot" : ""));
    }
    return launches;
  }

  static std::string TokenIn(const std::string& body) {
    return body.substr(body.find("ClientToken="));
  }

  HandEdge edge_;
  std::unique_ptr<Provider> provider_;
};

using Words = std::vector<std::string>;

TEST_F(AwsProviderTest, ThrottledCallsAreRepeatedWithJitterAndThenTold) {
  edge_.Say("DescribeInstances", {Refusal("RequestLimitExceeded", 503)});
  const auto nodes = provider_->List();
  EXPECT_EQ(nodes.status().code(), ErrorCode::kCloudFailed);
  EXPECT_EQ(nodes.status().message(), "AWS refused DescribeInstances: RequestLimitExceeded: words");
  EXPECT_EQ(edge_.calls.size(), 8U);
  ASSERT_EQ(edge_.sleeps.size(), 7U);
  EXPECT_EQ(edge_.sleeps[0], Duration(std::chrono::milliseconds(200)));
  EXPECT_EQ(edge_.sleeps[6], Duration(std::chrono::seconds(10)));
  EXPECT_FALSE(edge_.notes.empty());
}

TEST_F(AwsProviderTest, ALostAnswerIsAskedForAgainWithTheSameToken) {
  edge_.Say("RunInstances", {Status(ErrorCode::kProtocolError, "cut off"), Machines({"i-1"})});
  const auto outcome = provider_->Create(Request(1));
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->nodes.size(), 1U);
  const Words bodies = edge_.Bodies("RunInstances");
  ASSERT_EQ(bodies.size(), 2U);
  EXPECT_EQ(bodies[0], bodies[1]);
}

TEST_F(AwsProviderTest, ScarceMachinesAreSoughtInAllSubnetsThenInSmallerNumbers) {
  const HttpReply none = Refusal("InsufficientInstanceCapacity", 500);
  edge_.Say("RunInstances", {none, none, none, Machines({"i-1", "i-2"}), Machines({"i-3", "i-4"})});
  const auto outcome = provider_->Create(Request(4));
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->shortfall.ok());
  EXPECT_EQ(outcome->nodes.size(), 4U);
  EXPECT_EQ(Launches(), (Words{"subnet-1 x4 spot", "subnet-2 x4 spot", "subnet-1 x2 spot",
                               "subnet-2 x2 spot", "subnet-1 x2 spot"}));
  EXPECT_TRUE(edge_.sleeps.empty());
}

TEST_F(AwsProviderTest, WithoutCapacityThreeRoundsAreTriedAndThenTold) {
  edge_.Say("RunInstances", {Refusal("InsufficientInstanceCapacity", 500)});
  const auto outcome = provider_->Create(Request(1));
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->nodes.empty());
  EXPECT_EQ(outcome->shortfall.code(), ErrorCode::kNoCapacity);
  EXPECT_EQ(Launches().size(), 6U);
  EXPECT_EQ(edge_.sleeps,
            (std::vector<Duration>{std::chrono::seconds(6), std::chrono::seconds(12)}));
}

TEST_F(AwsProviderTest, AQuotaIsNotTriedInOtherSubnets) {
  edge_.Say("RunInstances", {Refusal("VcpuLimitExceeded")});
  const auto outcome = provider_->Create(Request(2));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->shortfall.code(), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(Launches(), (Words{"subnet-1 x2 spot", "subnet-1 x1 spot"}));
}

TEST_F(AwsProviderTest, OnDemandMachinesComeLastAndOnlyIfAllowed) {
  const HttpReply none = Refusal("SpotMaxPriceTooLow");
  edge_.Say("RunInstances", {none, none, Machines({"i-1"})});
  CreateRequest request = Request(1);
  request.may_be_on_demand = true;
  const auto outcome = provider_->Create(request);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->nodes.size(), 1U);
  EXPECT_EQ(Launches(), (Words{"subnet-1 x1 spot", "subnet-2 x1 spot", "subnet-1 x1"}));
}

TEST_F(AwsProviderTest, AnOldTokenWhoseMachinesAreGoneIsReplaced) {
  edge_.Say("RunInstances",
            {Machines({"i-old"}, "terminated"), Refusal("IdempotentParameterMismatch"),
             Refusal("IdempotentInstanceTerminated"), Machines({"i-new"})});
  const auto outcome = provider_->Create(Request(1));
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->nodes.size(), 1U);
  EXPECT_EQ(outcome->nodes[0].id, "i-new");
  const Words bodies = edge_.Bodies("RunInstances");
  ASSERT_EQ(bodies.size(), 4U);
  std::set<std::string> tokens;
  for (const std::string& body : bodies) tokens.insert(TokenIn(body));
  EXPECT_EQ(tokens.size(), 4U);
}

TEST_F(AwsProviderTest, MachinesThatHaveAllEndedAreAFailureNotASuccess) {
  edge_.Say("RunInstances", {Machines({"i-old"}, "terminated")});
  EXPECT_EQ(provider_->Create(Request(1)).status().code(), ErrorCode::kCloudFailed);
  edge_.Say("RunInstances", {Refusal("IdempotentInstanceTerminated")});
  EXPECT_EQ(provider_->Create(Request(1)).status().code(), ErrorCode::kCloudFailed);
}

TEST_F(AwsProviderTest, ARefusalThatNothingHelpsAgainstIsToldAtOnce) {
  edge_.Say("RunInstances", {Refusal("UnauthorizedOperation", 403)});
  const auto outcome = provider_->Create(Request(2));
  EXPECT_EQ(outcome.status().code(), ErrorCode::kCloudDenied);
  EXPECT_EQ(Launches().size(), 1U);
}

TEST_F(AwsProviderTest, NewMachinesAreListedForAMinuteUntilAwsShowsThem) {
  edge_.Say("RunInstances", {Machines({"i-1"})});
  ASSERT_TRUE(provider_->Create(Request(1)).ok());
  auto nodes = provider_->List();
  ASSERT_TRUE(nodes.ok());
  ASSERT_EQ(nodes->size(), 1U);
  EXPECT_EQ((*nodes)[0].node_type, "gpu");
  edge_.now += std::chrono::seconds(61);
  EXPECT_TRUE(provider_->List()->empty());
}

TEST_F(AwsProviderTest, OneMachineThatIsGoneDoesNotKeepTheOthers) {
  edge_.Say("TerminateInstances", {Refusal("InvalidInstanceID.NotFound")});
  const auto removed = provider_->Remove({"i-1", "i-2"}, RemoveMode::kTerminate);
  ASSERT_TRUE(removed.ok()) << removed.status().ToString();
  const Words bodies = edge_.Bodies("TerminateInstances");
  EXPECT_EQ(bodies.size(), 36U);  // both, then each alone, twelve times
  EXPECT_NE(bodies.back().find("InstanceId.1=i-2"), std::string::npos);
}

TEST_F(AwsProviderTest, CancelEndsAWaitingCall) {
  edge_.Say("DescribeInstances", {Refusal("RequestLimitExceeded", 503)});
  provider_->Cancel();
  EXPECT_EQ(provider_->List().status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(edge_.calls.size(), 1U);
}

TEST_F(AwsProviderTest, AllPagesAreRead) {
  edge_.Say("DescribeInstances",
            {HttpReply{200,
                       "<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>"
                       "<instanceState><name>running</name></instanceState></item></instancesSet>"
                       "</item></reservationSet><nextToken>n</nextToken></R>"},
             Machines({"i-2"}, "running")});
  EXPECT_EQ(provider_->List()->size(), 2U);
  EXPECT_NE(edge_.calls.back().body.find("NextToken=n"), std::string::npos);
}

TEST(AwsEndpointTest, EndpointsAreAmazonsUnlessTheEnvironmentSaysOtherwise) {
  const auto url = [](AwsService service, const std::string& region,
                      const Environment& environment = {}) {
    const AwsEndpoint endpoint = ToAwsEndpoint(service, region, environment);
    return endpoint.url + " " + endpoint.region + "/" + endpoint.service;
  };
  EXPECT_EQ(url(AwsService::kEc2, "us-west-2"),
            "https://ec2.us-west-2.amazonaws.com/ us-west-2/ec2");
  EXPECT_EQ(url(AwsService::kIam, "us-west-2"), "https://iam.amazonaws.com/ us-east-1/iam");
  EXPECT_EQ(url(AwsService::kEc2, "cn-north-1"),
            "https://ec2.cn-north-1.amazonaws.com.cn/ cn-north-1/ec2");
  EXPECT_EQ(url(AwsService::kIam, "us-gov-west-1"),
            "https://iam.us-gov.amazonaws.com/ us-gov-west-1/iam");
  const Environment both(
      {{"AWS_ENDPOINT_URL", "http://all"}, {"AWS_ENDPOINT_URL_EC2", "http://ec2/"}});
  EXPECT_EQ(url(AwsService::kEc2, "us-west-2", both), "http://ec2/ us-west-2/ec2");
  EXPECT_EQ(url(AwsService::kSts, "us-west-2", both), "http://all/ us-west-2/sts");
}

TEST(KeyFilesTest, AKeyIsItsUsersAloneReplacesNothingAndIsOursOnlyWhileItIsUnchanged) {
  const TempDirectory home;
  const KeyFiles files(home.path());
  EXPECT_TRUE(files.Names().empty());
  ASSERT_TRUE(files.MakeDirectory().ok());
  ASSERT_TRUE(files.MakeDirectory().ok());
  const std::string key = "-----BEGIN-----\nsecret\n";
  ASSERT_TRUE(files.Write("k", key).ok());
  EXPECT_TRUE(files.HasWritten("k"));
  EXPECT_FALSE(files.HasWritten("other"));
  struct stat facts {};
  ASSERT_EQ(::stat(files.Path("k").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  EXPECT_TRUE(files.Names().contains("k.pem"));
  for (size_t i = 0; i <= key.size(); ++i) {
    std::string changed = key;
    if (i < key.size()) {
      changed[i] = static_cast<char>(changed[i] ^ 1);
    } else {
      changed += "x";
    }
    ASSERT_TRUE(WriteFileAtomically(files.Path("k"), changed).ok());
    EXPECT_FALSE(files.HasWritten("k")) << i;
  }
  EXPECT_EQ(files.Write("k", key).code(), ErrorCode::kFileUnwritable);
  EXPECT_FALSE(files.HasWritten("k"));
  EXPECT_EQ(ReadFile(files.Path("k")).value_or(""), key + "x") << "somebody else's stays";
  files.Remove("k");
  ASSERT_TRUE(files.Write("k", key).ok());
  EXPECT_TRUE(files.HasWritten("k"));
  files.Remove("k");
  EXPECT_EQ(files.Names(), (std::set<std::string>{".", ".."})) << "nothing half written either";
}

}  // namespace
}  // namespace hvdray
