// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_provider.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <random>
#include <tuple>
#include <utility>

#include "base/cancel_flag.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/user_home.h"
#include "cluster/cloud/aws_plan.h"
#include "cluster/cloud/key_files.h"
#include "cluster/transport/foreground_process.h"

namespace hvdray {
namespace {

using Action = ProviderStep::Action;
using StepHandler = std::function<void(const ProviderStep&)>;

constexpr std::string_view kCurrentImageParameter =
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id";
constexpr std::string_view kPolicies[] = {"arn:aws:iam::aws:policy/AmazonEC2FullAccess",
                                          "arn:aws:iam::aws:policy/AmazonS3FullAccess"};
constexpr std::string_view kTrust =
    R"({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": )"
    R"({"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]})";

/// All states but terminated.
std::vector<std::string> StatesOfList() {
  return {"pending", "running", "stopping", "stopped", "shutting-down"};
}

constexpr size_t kIdsPerCall = 1000;
constexpr std::chrono::seconds kNewNodesShown(60);
constexpr int kCapacityRounds = 3;
constexpr Duration kCapacityPause = std::chrono::seconds(8);
// AWS knows a token for a day or so: as many launches of one group that were terminated since.
constexpr int kMaxTokens = 64;
constexpr Duration kProcessLimit = std::chrono::minutes(2);
constexpr std::string_view kStartedRequest = "started";
constexpr Duration kStopPace = std::chrono::seconds(2);
constexpr int kStopPolls = 150;
constexpr Duration kReleasePace = std::chrono::seconds(2);
constexpr int kReleaseAttempts = 60;

/// The clock, the dice and the network of a real process.
class RealEdge {
 public:
  explicit RealEdge(const Environment& environment) : http_(environment) {}

  AwsEdge Edge(std::function<void(const std::string&)> note) {
    AwsEdge edge;
    edge.send = [this](const AwsRequest& request) { return http_.Send(request); };
    edge.run = [this](const std::vector<std::string>& command) -> Result<AwsCommandEnd> {
      HVDRAY_ASSIGN_OR_RETURN(const CapturedRun run,
                              RunForOutput(command, "", kProcessLimit, cancel_fd_.get()));
      return AwsCommandEnd{run.exit_code, Secret(run.output),
                           run.error_lines.empty() ? "" : run.error_lines.back()};
    };
    edge.sleep = [this](Duration duration) { return cancel_.Sleep(duration); };
    edge.random = [this] {
      const std::lock_guard lock(mutex_);
      return std::uniform_real_distribution<double>(0, 1)(random_);
    };
    edge.now = [] { return TimePoint(std::chrono::steady_clock::now()); };
    edge.wall_now = [] { return std::chrono::system_clock::now(); };
    edge.note = std::move(note);
    return edge;
  }

  void Cancel() {
    cancel_.Cancel();
    http_.Cancel();
    ::eventfd_write(cancel_fd_.get(), 1);
  }

 private:
  AwsHttp http_;
  CancelFlag cancel_;
  const UniqueFd cancel_fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  // readable: give up
  std::mutex mutex_;                                                    // guards random_
  std::mt19937_64 random_{std::random_device()()};
};

AwsForm TagForm(const std::string& prefix, const ProviderTags& tags) {
  AwsForm form;
  size_t number = 0;
  for (const auto& [key, value] : tags) {
    form.emplace_back(fmt::format("{}.{}.Key", prefix, ++number), key);
    form.emplace_back(fmt::format("{}.{}.Value", prefix, number), value);
  }
  return form;
}

void AddTagSpecification(AwsForm& form, const std::string& resource, const ProviderTags& tags) {
  form.emplace_back("TagSpecification.1.ResourceType", resource);
  const AwsForm list = TagForm("TagSpecification.1.Tag", tags);
  form.insert(form.end(), list.begin(), list.end());
}

Status InvalidOf(const Status& status, std::string_view attempt) {
  return Status(status).WithContext(attempt);
}

class AwsProvider final : public Provider {
 public:
  AwsProvider(AwsInput input, ClusterAuth auth, bool keeps_stopped, const Environment& environment,
              AwsAccountFacts account, AwsEdge edge, std::function<void()> cancel)
      : input_(std::move(input)),
        auth_(std::move(auth)),
        keeps_stopped_(keeps_stopped),
        home_(environment.GetOr("HOME", "/root")),
        key_files_(home_),
        cancel_(std::move(cancel)),
        api_(std::move(account), input_.region, environment, std::move(edge)) {}

  Result<std::vector<CloudNode>> List() override;
  Result<ProviderPlan> Plan() override;
  Result<PreparedCluster> Prepare(const StepHandler& on_step) override;
  Result<CreateOutcome> Create(const CreateRequest& request) override;
  Result<CreateOutcome> StartStopped(const CreateRequest& request) override;
  Status SetTags(const std::vector<std::string>& ids, const ProviderTags& tags) override;
  Result<std::vector<RemovedNode>> Remove(const std::vector<std::string>& ids,
                                          RemoveMode mode) override;
  Result<std::vector<ProviderStep>> Purge() override;
  void Cancel() override { cancel_(); }

 private:
  // Facts.
  Result<std::vector<AwsInstance>> Instances(const AwsForm& filters);
  Result<std::vector<AwsInstance>> ClusterInstances(const std::vector<std::string>& states,
                                                    const ProviderTags& tags = {});
  Result<std::vector<AwsSecurityGroup>> Groups(std::string_view filter,
                                               const std::vector<std::string>& values);
  Result<std::vector<AwsKeyPair>> Keys();
  Result<std::optional<AwsInstanceProfile>> Profile();
  Status ReadRole(AwsFacts& facts);
  Status ReadMachineTypes(AwsFacts& facts);
  Status ReadTemplates(AwsFacts& facts);
  Status ReadImage(AwsFacts& facts);
  Result<AwsFacts> ReadFacts();
  Result<Json> AuthForHash(const std::string& private_key) const;

  // Changes.
  Result<std::string> MakeProfile(const AwsPlan& plan);
  Result<bool> MakeKey(const AwsPlan& plan);
  Result<std::string> MakeGroup(const AwsPlan& plan, const std::string& vpc);
  Status AddRules(const std::string& group_id);

  // Machines.
  struct Batch {
    const CreateRequest& request;
    const ProviderTags tags;
    bool is_on_demand = false;
    int next_token = 0;
    CreateOutcome outcome = {};
    int missing() const { return request.count - static_cast<int>(outcome.nodes.size()); }
  };
  AwsAnswer Launch(Batch& batch, const std::string& subnet, int count);
  AwsAnswer LaunchAnywhere(Batch& batch);
  Status WaitUntilStopped(std::vector<std::string> ids);
  Status Act(std::string_view action, const std::vector<std::string>& ids);
  void Remember(const CloudNode& node);
  void Note(const std::string& line) const {
    if (api_.edge().note) api_.edge().note(line);
  }

  // Purging.
  Result<std::vector<AwsInstance>> Others();
  Result<std::string> UserElsewhere(const std::string& profile_arn);
  Status PurgeGroups(std::vector<ProviderStep>& steps);
  Status PurgeKeys(const std::vector<AwsInstance>& others, std::vector<ProviderStep>& steps);
  Status PurgeProfile(const std::vector<AwsInstance>& others, std::vector<ProviderStep>& steps);
  Status PurgeRole(std::vector<ProviderStep>& steps);
  Status CheckPurged(const std::vector<ProviderStep>& steps);

  ProviderTags OurTags() const { return {{std::string(kAwsMadeByTag), input_.cluster_name}}; }

  const AwsInput input_;
  const ClusterAuth auth_;
  const bool keeps_stopped_;
  const std::string home_;
  const KeyFiles key_files_;
  const std::function<void()> cancel_;
  AwsApi api_;

  std::mutex mutex_;                                                  // guards the rest
  std::map<std::string, std::pair<CloudNode, TimePoint>> new_nodes_;  // by id, since when
};

// Facts.

Result<std::vector<AwsInstance>> AwsProvider::Instances(const AwsForm& filters) {
  std::vector<AwsInstance> instances;
  const AwsAnswer answer =
      api_.CallPages("DescribeInstances", filters, [&instances](const XmlElement& page) {
        std::ranges::move(InstancesIn(page), std::back_inserter(instances));
      });
  if (!answer.ok()) return answer.status;
  return instances;
}

Result<std::vector<AwsInstance>> AwsProvider::ClusterInstances(
    const std::vector<std::string>& states, const ProviderTags& tags) {
  AwsForm form;
  AddAwsFilter(form, fmt::format("tag:{}", kTagCluster), {input_.cluster_name});
  AddAwsFilter(form, "instance-state-name", states);
  for (const auto& [key, value] : tags) AddAwsFilter(form, "tag:" + key, {value});
  return Instances(form);
}

Result<std::vector<AwsSecurityGroup>> AwsProvider::Groups(std::string_view filter,
                                                          const std::vector<std::string>& values) {
  AwsForm form;
  AddAwsFilter(form, filter, values);
  std::vector<AwsSecurityGroup> groups;
  const AwsAnswer answer =
      api_.CallPages("DescribeSecurityGroups", form, [&groups](const XmlElement& page) {
        std::ranges::move(SecurityGroupsIn(page), std::back_inserter(groups));
      });
  if (!answer.ok()) return answer.status;
  return groups;
}

Result<std::vector<AwsKeyPair>> AwsProvider::Keys() {
  const AwsAnswer answer = api_.Call(AwsService::kEc2, "DescribeKeyPairs", {});
  if (!answer.ok()) return answer.status;
  return KeyPairsIn(answer.root);
}

Result<std::optional<AwsInstanceProfile>> AwsProvider::Profile() {
  const AwsAnswer answer = api_.Call(AwsService::kIam, "GetInstanceProfile",
                                     {{"InstanceProfileName", std::string(kAwsProfileName)}});
  if (answer.fault == AwsFault::kNotFound) return std::optional<AwsInstanceProfile>();
  if (!answer.ok()) return answer.status;
  return std::optional(InstanceProfileIn(answer.root));
}

Status AwsProvider::ReadRole(AwsFacts& facts) {
  const AwsAnswer answer =
      api_.Call(AwsService::kIam, "GetRole", {{"RoleName", std::string(kAwsProfileName)}});
  if (answer.fault == AwsFault::kNotFound) return {};
  if (!answer.ok()) return answer.status;
  facts.has_role = true;
  if (const XmlElement* role = answer.root.Find("GetRoleResult/Role")) {
    facts.is_role_ours = TagsIn(*role).contains(std::string(kAwsMadeByTag));
  }
  return {};
}

Status AwsProvider::ReadMachineTypes(AwsFacts& facts) {
  std::set<std::string> names;
  for (const AwsTypeInput& type : input_.types) {
    const auto found = type.node_config.find("InstanceType");
    if (found != type.node_config.end() && found->is_string()) {
      names.insert(found->get<std::string>());
    }
  }
  if (names.empty()) return {};
  AwsForm form;
  // A filter, since an unknown name as InstanceType.N fails the call and does not say which.
  AddAwsFilter(form, "instance-type", {names.begin(), names.end()});
  return api_
      .CallPages("DescribeInstanceTypes", form,
                 [&facts](const XmlElement& page) {
                   for (AwsInstanceType& type : InstanceTypesIn(page)) {
                     std::string name = type.name;
                     facts.machine_types.insert_or_assign(std::move(name), std::move(type));
                   }
                 })
      .status;
}

Status AwsProvider::ReadTemplates(AwsFacts& facts) {
  for (const AwsTypeInput& type : input_.types) {
    const auto found = type.node_config.find("LaunchTemplate");
    if (found == type.node_config.end() || !found->is_object()) continue;
    AwsForm form;
    for (const char* key : {"LaunchTemplateId", "LaunchTemplateName"}) {
      if (found->contains(key)) AddAwsObject(form, Json{{key, (*found)[key]}});
    }
    const auto version = found->find("Version");
    form.emplace_back("LaunchTemplateVersion.1", version == found->end() ? "$Default"
                                                 : version->is_string()
                                                     ? version->get<std::string>()
                                                     : DumpJson(*version));
    const AwsAnswer answer = api_.Call(AwsService::kEc2, "DescribeLaunchTemplateVersions", form);
    if (!answer.ok()) return InvalidOf(answer.status, "node type " + type.name);
    for (const XmlElement* item : answer.root.ItemsAt("launchTemplateVersionSet")) {
      const XmlElement* data = item->Find("launchTemplateData");
      if (data == nullptr) continue;
      for (const XmlElement& key : data->children) facts.template_keys[type.name].insert(key.name);
    }
  }
  return {};
}

Status AwsProvider::ReadImage(AwsFacts& facts) {
  const bool is_needed = std::ranges::any_of(input_.types, [](const AwsTypeInput& type) {
    const auto found = type.node_config.find("ImageId");
    return found == type.node_config.end() || !found->is_string() ||
           !found->get_ref<const std::string&>().starts_with("ami-");
  });
  if (!is_needed) return {};
  const Result<std::optional<std::string>> image =
      api_.Parameter(std::string(kCurrentImageParameter));
  if (image.ok()) {
    // An id and nothing else: it is shown, and becomes part of requests.
    const bool is_id = *image && (*image)->starts_with("ami-") &&
                       std::ranges::all_of(**image, [](unsigned char c) {
                         return c == '-' || std::isalnum(c) != 0;
                       });
    if (is_id) facts.current_image = *image;
  } else if (image.status().code() == ErrorCode::kCancelled) {
    return image.status();
  }
  // Otherwise there is an older default: not being able to ask is no reason to fail.
  return {};
}

Result<AwsFacts> AwsProvider::ReadFacts() {
  AwsFacts facts;
  const AwsAnswer subnets = api_.CallPages("DescribeSubnets", {}, [&facts](const XmlElement& page) {
    std::ranges::move(SubnetsIn(page), std::back_inserter(facts.subnets));
  });
  if (!subnets.ok()) return subnets.status;
  HVDRAY_ASSIGN_OR_RETURN(facts.nodes, ClusterInstances(StatesOfList()));
  const std::string group =
      input_.group_name.empty() ? "ray-autoscaler-" + input_.cluster_name : input_.group_name;
  HVDRAY_ASSIGN_OR_RETURN(facts.groups, Groups("group-name", {group}));
  std::set<std::string> ids;
  for (const AwsTypeInput& type : input_.types) {
    const auto found = type.node_config.find("SecurityGroupIds");
    if (found == type.node_config.end() || !found->is_array()) continue;
    for (const Json& id : *found) {
      if (id.is_string()) ids.insert(id.get<std::string>());
    }
  }
  if (!ids.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(std::vector<AwsSecurityGroup> given,
                            Groups("group-id", {ids.begin(), ids.end()}));
    std::ranges::move(given, std::back_inserter(facts.groups));
  }
  if (input_.private_key.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(facts.keys, Keys());
    facts.key_files = key_files_.Names();
  }
  HVDRAY_RETURN_IF_ERROR(ReadMachineTypes(facts));
  HVDRAY_RETURN_IF_ERROR(ReadTemplates(facts));
  HVDRAY_RETURN_IF_ERROR(ReadImage(facts));
  const auto head = std::ranges::find(input_.types, input_.head_type, &AwsTypeInput::name);
  if (head == input_.types.end() || !head->node_config.contains("IamInstanceProfile")) {
    HVDRAY_ASSIGN_OR_RETURN(facts.profile, Profile());
    if (!facts.profile || facts.profile->roles.empty()) {
      HVDRAY_RETURN_IF_ERROR(ReadRole(facts));
    }
  }
  return facts;
}

Result<Json> AwsProvider::AuthForHash(const std::string& private_key) const {
  Json auth = Json::object();
  if (!auth_.ssh_user.empty()) auth["ssh_user"] = auth_.ssh_user;
  if (!auth_.ssh_proxy_command.empty()) auth["ssh_proxy_command"] = auth_.ssh_proxy_command;
  if (auth_.is_proxied_by_node_id) auth["ssh_proxy_use_node_id"] = true;
  const auto add = [&](const char* key, const std::string& path) -> Status {
    if (path.empty()) return {};
    HVDRAY_ASSIGN_OR_RETURN(std::string text, ReadFile(ExpandedHome(path, home_)));
    // Python reads text files with any line end as '\n'.
    for (size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos;) text.erase(at, 1);
    auth[key] = std::move(text);
    return {};
  };
  HVDRAY_RETURN_IF_ERROR(add("ssh_private_key", private_key));
  HVDRAY_RETURN_IF_ERROR(add("ssh_public_key", auth_.ssh_public_key));
  return auth;
}

Result<std::vector<CloudNode>> AwsProvider::List() {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsInstance> instances,
                          ClusterInstances(StatesOfList()));
  std::vector<CloudNode> nodes;
  nodes.reserve(instances.size());
  for (const AwsInstance& instance : instances) {
    if (std::optional<CloudNode> node = ToCloudNode(instance)) nodes.push_back(*std::move(node));
  }
  {
    const std::lock_guard lock(mutex_);
    for (const CloudNode& node : nodes) new_nodes_.erase(node.id);
    std::erase_if(new_nodes_, [this](const auto& entry) {
      return api_.edge().now() - entry.second.second > kNewNodesShown;
    });
    for (const auto& [id, entry] : new_nodes_) nodes.push_back(entry.first);
  }
  std::ranges::sort(nodes, {}, [](const CloudNode& node) {
    return std::tuple(node.kind, node.node_type, node.id);
  });
  return nodes;
}

// Changes.

Result<ProviderPlan> AwsProvider::Plan() {
  HVDRAY_ASSIGN_OR_RETURN(const AwsFacts facts, ReadFacts());
  HVDRAY_ASSIGN_OR_RETURN(AwsPlan plan, PlanAws(input_, facts));
  return std::move(plan.shown);
}

/// Returns the profile's ARN.
Result<std::string> AwsProvider::MakeProfile(const AwsPlan& plan) {
  const std::string name(kAwsProfileName);
  std::string arn = plan.profile_arn;
  if (plan.makes_profile) {
    AwsForm form = {{"InstanceProfileName", name}};
    std::ranges::copy(TagForm("Tags.member", OurTags()), std::back_inserter(form));
    const AwsAnswer made = api_.Call(AwsService::kIam, "CreateInstanceProfile", form);
    if (!made.ok() && made.fault != AwsFault::kAlreadyExists) return made.status;
    HVDRAY_ASSIGN_OR_RETURN(const std::optional<AwsInstanceProfile> profile, Profile());
    if (!profile && !made.ok()) return made.status;
    arn = profile ? profile->arn : InstanceProfileIn(made.root).arn;
  }
  if (plan.makes_role) {
    AwsForm form = {{"RoleName", name}, {"AssumeRolePolicyDocument", std::string(kTrust)}};
    std::ranges::copy(TagForm("Tags.member", OurTags()), std::back_inserter(form));
    const AwsAnswer made = api_.Call(AwsService::kIam, "CreateRole", form);
    if (!made.ok() && made.fault != AwsFault::kAlreadyExists) return made.status;
  }
  for (const std::string_view policy : kPolicies) {
    if (!plan.attaches_policies) break;
    const AwsAnswer attached = api_.Call(AwsService::kIam, "AttachRolePolicy",
                                         {{"RoleName", name}, {"PolicyArn", std::string(policy)}});
    if (!attached.ok()) return attached.status;
  }
  if (plan.adds_role) {
    const AwsAnswer added = api_.Call(AwsService::kIam, "AddRoleToInstanceProfile",
                                      {{"InstanceProfileName", name}, {"RoleName", name}});
    // A profile holds one role: somebody else has added it meanwhile.
    if (!added.ok() && added.fault != AwsFault::kQuota) return added.status;
  }
  return arn;
}

/// False: somebody else has made one of that name; plan again.
Result<bool> AwsProvider::MakeKey(const AwsPlan& plan) {
  HVDRAY_RETURN_IF_ERROR(key_files_.MakeDirectory());
  AwsForm form = {{"KeyName", plan.key_name}};
  AddTagSpecification(form, "key-pair", OurTags());
  // If an answer is lost, so is the key: the next `up` takes another name.
  const AwsAnswer made =
      api_.Call(AwsService::kEc2, "CreateKeyPair", form, AwsRepeat::kOnlyIfRefused);
  if (made.fault == AwsFault::kAlreadyExists) return false;
  if (!made.ok()) return made.status;
  const Status written = key_files_.Write(plan.key_name, made.root.TextAt("keyMaterial") + "\n");
  if (!written.ok()) {
    (void)api_.Call(AwsService::kEc2, "DeleteKeyPair", {{"KeyName", plan.key_name}}).ok();
    return written;
  }
  return true;
}

Result<std::string> AwsProvider::MakeGroup(const AwsPlan& plan, const std::string& vpc) {
  AwsForm form = {{"GroupName", plan.group_name},
                  {"GroupDescription", std::string(kAwsGroupText)},
                  {"VpcId", vpc}};
  AddTagSpecification(form, "security-group",
                      {{"ray-autoscaler", "true"},
                       {std::string(kTagCluster), input_.cluster_name},
                       {std::string(kAwsMadeByTag), input_.cluster_name}});
  const AwsAnswer made = api_.Call(AwsService::kEc2, "CreateSecurityGroup", form);
  if (made.ok()) return GroupIdIn(made.root);
  if (made.fault != AwsFault::kAlreadyExists) return made.status;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsSecurityGroup> groups,
                          Groups("group-name", {plan.group_name}));
  const auto found = std::ranges::find(groups, vpc, &AwsSecurityGroup::vpc_id);
  if (found == groups.end()) return made.status;
  return found->id;
}

Status AwsProvider::AddRules(const std::string& group_id) {
  AwsForm form = {{"GroupId", group_id}};
  AddAwsObject(form, Json{{"IpPermissions", AwsGroupRules(group_id, input_.group_rules)}});
  const AwsAnswer answer = api_.Call(AwsService::kEc2, "AuthorizeSecurityGroupIngress", form);
  return answer.fault == AwsFault::kAlreadyExists ? Status() : answer.status;
}

Result<PreparedCluster> AwsProvider::Prepare(const StepHandler& on_step) {
  HVDRAY_ASSIGN_OR_RETURN(AwsFacts facts, ReadFacts());
  HVDRAY_ASSIGN_OR_RETURN(AwsPlan plan, PlanAws(input_, facts));
  constexpr int kKeyAttempts = 5;
  for (int attempt = 1; plan.makes_key; ++attempt) {
    HVDRAY_ASSIGN_OR_RETURN(const bool is_made, MakeKey(plan));
    if (is_made) break;
    if (attempt == kKeyAttempts) {
      return Status(ErrorCode::kCloudFailed, "other clusters make key pairs faster than this one",
                    "try again");
    }
    HVDRAY_ASSIGN_OR_RETURN(facts.keys, Keys());
    facts.key_files = key_files_.Names();
    HVDRAY_ASSIGN_OR_RETURN(plan, PlanAws(input_, facts));
  }
  PreparedCluster prepared;
  const auto tell = [&](std::string_view what) {
    for (const ProviderStep& step : plan.shown.steps) {
      if (step.what == what && step.action != Action::kKeep && on_step) on_step(step);
    }
  };
  if (plan.makes_key) tell("key pair");
  std::string profile_arn = plan.profile_arn;
  if (plan.uses_profile && (plan.makes_profile || plan.adds_role)) {
    HVDRAY_ASSIGN_OR_RETURN(profile_arn, MakeProfile(plan));
    tell("instance profile");
  }
  std::map<std::string, std::string> group_ids;
  for (const auto& [vpc, group] : plan.groups) {
    std::string id = group.id;
    if (id.empty()) {
      HVDRAY_ASSIGN_OR_RETURN(id, MakeGroup(plan, vpc));
    }
    if (group.needs_rules) HVDRAY_RETURN_IF_ERROR(AddRules(id));
    group_ids[vpc] = std::move(id);
  }
  tell("security group");
  prepared.private_key_path = plan.key_name.empty() ? ExpandedHome(input_.private_key, home_)
                                                    : key_files_.Path(plan.key_name);
  HVDRAY_ASSIGN_OR_RETURN(const Json auth, AuthForHash(prepared.private_key_path));
  prepared.nodes = PreparedAwsNodes(input_, plan, group_ids, profile_arn, auth);
  prepared.steps = std::move(plan.shown.steps);
  prepared.warnings = std::move(plan.shown.warnings);
  return prepared;
}

// Machines.

void AwsProvider::Remember(const CloudNode& node) {
  const std::lock_guard lock(mutex_);
  new_nodes_.insert_or_assign(node.id, std::pair(node, api_.edge().now()));
}

/// One RunInstances, all or nothing. What it made is in the batch.
AwsAnswer AwsProvider::Launch(Batch& batch, const std::string& subnet, int count) {
  AwsForm form;
  AddAwsObject(form, AwsLaunchConfig(batch.request.node.node_config, subnet, count, batch.tags,
                                     batch.is_on_demand));
  for (int attempt = 0;; ++attempt) {
    // The same call, made again because its answer was lost, finds the machines of the first: its
    // token says what it asks for and what was there before.
    const std::string seed = fmt::format(
        "{}\n{}\n{}\n{}\n{}\n{}\n{}", input_.cluster_name, batch.request.request_id, subnet, count,
        batch.is_on_demand, batch.outcome.nodes.size(), batch.next_token);
    AwsForm whole = form;
    whole.emplace_back("ClientToken", Hex(Sha256(seed)));
    AwsAnswer answer = api_.Call(AwsService::kEc2, "RunInstances", whole);
    const bool is_last = attempt + 1 == kMaxTokens;
    if (answer.fault == AwsFault::kSpentToken && !is_last) {
      ++batch.next_token;
      continue;
    }
    if (!answer.ok()) return answer;
    bool has_live = false;
    for (const AwsInstance& instance : InstancesIn(answer.root)) {
      std::optional<CloudNode> node = ToCloudNode(instance);
      if (!node || !node->is_live()) continue;
      has_live = true;
      // Some answers are without the tags.
      for (const auto& [key, value] : batch.tags) node->tags.emplace(key, value);
      node->kind = batch.request.node.kind;
      node->node_type = batch.request.node.node_type;
      node->launch_hash = batch.request.node.launch_hash;
      node->status = kNewNodeStatus;
      Remember(*node);
      batch.outcome.nodes.push_back(*std::move(node));
    }
    if (has_live) return answer;
    // A spent token, as AWS answered to it before 2025: what it made has been terminated since.
    if (is_last) {
      answer.fault = AwsFault::kSpentToken;
      answer.status = {
          ErrorCode::kCloudFailed,
          fmt::format("AWS answers {} launches with machines that have ended", kMaxTokens),
          "it forgets them within a day; another cluster_name helps at once"};
      return answer;
    }
    ++batch.next_token;
  }
}

/// Tries subnets in order, then smaller numbers, until all are there or one can't be had.
AwsAnswer AwsProvider::LaunchAnywhere(Batch& batch) {
  const std::vector<std::string> subnets = AwsSubnets(batch.request.node.node_config);
  AwsAnswer answer;
  for (int chunk = batch.missing(); batch.missing() > 0;) {
    chunk = std::min(chunk, batch.missing());
    bool is_made = false;
    for (const std::string& subnet : subnets) {
      const size_t before = batch.outcome.nodes.size();
      answer = Launch(batch, subnet, chunk);
      is_made = answer.ok() && batch.outcome.nodes.size() > before;
      if (is_made || answer.fault != AwsFault::kNoCapacity) break;
    }
    if (is_made) continue;
    const bool is_scarce =
        answer.fault == AwsFault::kNoCapacity || answer.fault == AwsFault::kQuota;
    if (!is_scarce || chunk == 1) return answer;
    chunk /= 2;
  }
  return answer;
}

Result<CreateOutcome> AwsProvider::Create(const CreateRequest& request) {
  Batch batch{.request = request, .tags = AwsNodeTags(input_.cluster_name, request)};
  HVDRAY_ASSIGN_OR_RETURN(
      const std::vector<AwsInstance> earlier,
      // With the hash: one that was just replaced may still be shown as running.
      ClusterInstances({"pending", "running"},
                       {{std::string(kTagRequest), request.request_id},
                        {std::string(kTagLaunchHash), request.node.launch_hash}}));
  for (const AwsInstance& instance : earlier) {
    if (std::optional<CloudNode> node = ToCloudNode(instance)) {
      batch.outcome.nodes.push_back(*std::move(node));
    }
  }
  AwsAnswer answer;
  for (int round = 1; batch.missing() > 0; ++round) {
    batch.is_on_demand = false;
    answer = LaunchAnywhere(batch);
    const bool is_scarce =
        answer.fault == AwsFault::kNoCapacity || answer.fault == AwsFault::kQuota;
    if (batch.missing() > 0 && is_scarce && request.may_be_on_demand &&
        IsAwsSpot(request.node.node_config)) {
      Note(fmt::format("{}; taking on-demand machines", answer.status.message()));
      batch.is_on_demand = true;
      answer = LaunchAnywhere(batch);
    }
    if (batch.missing() == 0 || answer.fault != AwsFault::kNoCapacity || round == kCapacityRounds) {
      break;
    }
    const Duration pause = std::chrono::duration_cast<Duration>(Seconds(kCapacityPause) * round *
                                                                (0.5 + api_.edge().random() / 2));
    Note(fmt::format("{}; trying again in {:.0f} s", answer.status.message(),
                     Seconds(pause).count()));
    if (!api_.edge().sleep(pause)) {
      answer.status = Status(ErrorCode::kCancelled, "cancelled");
      break;
    }
  }
  if (batch.missing() > 0) batch.outcome.shortfall = answer.status;
  if (batch.outcome.nodes.empty() && !answer.ok() && answer.fault != AwsFault::kNoCapacity &&
      answer.fault != AwsFault::kQuota) {
    return answer.status;
  }
  return std::move(batch.outcome);
}

Status AwsProvider::WaitUntilStopped(std::vector<std::string> ids) {
  for (int poll = 0; poll < kStopPolls; ++poll) {
    AwsForm form;
    AddAwsFilter(form, "instance-id", ids);
    AddAwsFilter(form, "instance-state-name", {"stopping"});
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsInstance> stopping, Instances(form));
    if (stopping.empty()) return {};
    if (poll == 0) Note(fmt::format("waiting until {} stop", Count(stopping.size(), "machine")));
    if (!api_.edge().sleep(kStopPace)) return {ErrorCode::kCancelled, "cancelled"};
  }
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("{} did not stop within {} s", fmt::join(ids, ", "),
                      Seconds(kStopPace).count() * kStopPolls)};
}

Result<CreateOutcome> AwsProvider::StartStopped(const CreateRequest& request) {
  CreateOutcome outcome;
  ProviderTags tags = AwsNodeTags(input_.cluster_name, request);
  // Create() would count them as its own.
  tags.insert_or_assign(std::string(kTagRequest), std::string(kStartedRequest));
  ProviderTags wanted;
  for (const std::string_view key : {kTagKind, kTagNodeType, kTagLaunchHash}) {
    wanted.emplace(key, tags.at(std::string(key)));
  }
  HVDRAY_ASSIGN_OR_RETURN(std::vector<AwsInstance> found,
                          ClusterInstances({"stopped", "stopping"}, wanted));
  if (found.empty()) return outcome;
  // Stopped ones first: no waiting.
  std::ranges::sort(found, {}, [](const AwsInstance& each) {
    return std::pair(each.state != "stopped", each.id);
  });
  if (found.size() > static_cast<size_t>(request.count)) {
    found.resize(static_cast<size_t>(request.count));
  }
  std::vector<std::string> ids;
  ids.reserve(found.size());
  for (const AwsInstance& instance : found) ids.push_back(instance.id);
  HVDRAY_RETURN_IF_ERROR(WaitUntilStopped(ids));
  // Before they run: whoever sees them running must not take them for ready.
  HVDRAY_RETURN_IF_ERROR(SetTags(ids, tags));
  AwsForm form;
  AddAwsList(form, "InstanceId", ids);
  const AwsAnswer started = api_.Call(AwsService::kEc2, "StartInstances", form);
  if (!started.ok()) {
    outcome.shortfall = started.status;
    return outcome;
  }
  for (const AwsInstance& instance : found) {
    std::optional<CloudNode> node = ToCloudNode(instance);
    if (!node) continue;
    node->state = CloudState::kPending;
    node->status = kNewNodeStatus;
    node->external_address.clear();  // it gets another one
    for (const auto& [key, value] : tags) node->tags[key] = value;
    outcome.nodes.push_back(*std::move(node));
  }
  return outcome;
}

Status AwsProvider::SetTags(const std::vector<std::string>& ids, const ProviderTags& tags) {
  for (size_t from = 0; from < ids.size(); from += kIdsPerCall) {
    const size_t to = std::min(ids.size(), from + kIdsPerCall);
    AwsForm form;
    AddAwsList(
        form, "ResourceId",
        {ids.begin() + static_cast<ptrdiff_t>(from), ids.begin() + static_cast<ptrdiff_t>(to)});
    std::ranges::copy(TagForm("Tag", tags), std::back_inserter(form));
    const AwsAnswer answer = api_.Call(AwsService::kEc2, "CreateTags", form);
    if (!answer.ok()) return answer.status;
  }
  return {};
}

/// Stops or terminates. One id that is gone fails a call for all, so they are then tried one by
/// one.
Status AwsProvider::Act(std::string_view action, const std::vector<std::string>& ids) {
  for (size_t from = 0; from < ids.size(); from += kIdsPerCall) {
    const size_t to = std::min(ids.size(), from + kIdsPerCall);
    const std::vector<std::string> part(ids.begin() + static_cast<ptrdiff_t>(from),
                                        ids.begin() + static_cast<ptrdiff_t>(to));
    AwsForm form;
    AddAwsList(form, "InstanceId", part);
    const AwsAnswer answer = api_.Call(AwsService::kEc2, action, form);
    if (answer.ok()) continue;
    if (answer.fault != AwsFault::kNotYetVisible) return answer.status;
    if (part.size() == 1) continue;
    for (const std::string& id : part) HVDRAY_RETURN_IF_ERROR(Act(action, {id}));
  }
  return {};
}

Result<std::vector<RemovedNode>> AwsProvider::Remove(const std::vector<std::string>& ids,
                                                     RemoveMode mode) {
  std::vector<RemovedNode> removed;
  if (ids.empty()) return removed;
  std::set<std::string> spot;
  if (keeps_stopped_ && mode == RemoveMode::kAsConfigured) {
    constexpr size_t kIdsPerFilter = 200;
    for (size_t from = 0; from < ids.size(); from += kIdsPerFilter) {
      const size_t to = std::min(ids.size(), from + kIdsPerFilter);
      AwsForm form;
      AddAwsFilter(
          form, "instance-id",
          {ids.begin() + static_cast<ptrdiff_t>(from), ids.begin() + static_cast<ptrdiff_t>(to)});
      HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsInstance> found, Instances(form));
      for (const AwsInstance& instance : found) {
        if (instance.is_spot) spot.insert(instance.id);
      }
    }
  }
  std::vector<std::string> stopped, terminated;
  for (const std::string& id : ids) {
    const bool stops = keeps_stopped_ && mode == RemoveMode::kAsConfigured && !spot.contains(id);
    (stops ? stopped : terminated).push_back(id);
    removed.push_back({.id = id, .is_stopped = stops});
  }
  HVDRAY_RETURN_IF_ERROR(Act("TerminateInstances", terminated));
  HVDRAY_RETURN_IF_ERROR(Act("StopInstances", stopped));
  const std::lock_guard lock(mutex_);
  for (const std::string& id : ids) new_nodes_.erase(id);
  return removed;
}

// Purging.

/// Machines of other clusters, or of none, that are not gone.
Result<std::vector<AwsInstance>> AwsProvider::Others() {
  AwsForm form;
  AddAwsFilter(form, "instance-state-name", {"pending", "running", "stopping", "stopped"});
  HVDRAY_ASSIGN_OR_RETURN(std::vector<AwsInstance> all, Instances(form));
  std::erase_if(all, [this](const AwsInstance& instance) {
    const auto tag = instance.tags.find(std::string(kTagCluster));
    return tag != instance.tags.end() && tag->second == input_.cluster_name;
  });
  return all;
}

/// What uses the profile in other regions: IAM knows no regions. Empty: nothing does.
Result<std::string> AwsProvider::UserElsewhere(const std::string& profile_arn) {
  const AwsAnswer regions = api_.Call(AwsService::kEc2, "DescribeRegions", {});
  if (!regions.ok()) return regions.status;
  AwsForm form;
  AddAwsFilter(form, "instance-state-name", {"pending", "running", "stopping", "stopped"});
  for (const XmlElement* region : regions.root.ItemsAt("regionInfo")) {
    const std::string name = RegionNameIn(*region);
    if (name.empty() || name == input_.region) continue;
    AwsApi there = api_.InRegion(name);
    std::string user;
    const AwsAnswer answer =
        there.CallPages("DescribeInstances", form, [&](const XmlElement& page) {
          for (const AwsInstance& instance : InstancesIn(page)) {
            if (instance.profile_arn == profile_arn) user = instance.id;
          }
        });
    if (answer.status.code() == ErrorCode::kCancelled) return answer.status;
    if (!answer.ok()) return fmt::format("something in {}: {}", name, answer.status.message());
    if (!user.empty()) return fmt::format("{} in {}", user, name);
  }
  return std::string();
}

Status AwsProvider::PurgeGroups(std::vector<ProviderStep>& steps) {
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsSecurityGroup> groups,
                          Groups(fmt::format("tag:{}", kTagCluster), {input_.cluster_name}));
  for (const AwsSecurityGroup& group : groups) {
    if (!group.tags.contains(std::string(kAwsMadeByTag))) {
      steps.push_back({Action::kKeep, "security group", group.name, "not made by hvdray"});
      continue;
    }
    AwsAnswer answer;
    for (int attempt = 1; attempt <= kReleaseAttempts; ++attempt) {
      answer = api_.Call(AwsService::kEc2, "DeleteSecurityGroup", {{"GroupId", group.id}});
      // Machines that are ending keep it for a while.
      if (answer.fault != AwsFault::kInUse) break;
      if (attempt == 1) Note(fmt::format("waiting until nothing uses {}", group.id));
      if (!api_.edge().sleep(kReleasePace)) return {ErrorCode::kCancelled, "cancelled"};
    }
    const bool is_gone = answer.ok() || answer.fault == AwsFault::kNotFound ||
                         answer.fault == AwsFault::kNotYetVisible;
    if (!is_gone && answer.fault != AwsFault::kInUse) return answer.status;
    steps.push_back({is_gone ? Action::kDelete : Action::kKeep, "security group", group.name,
                     is_gone ? group.id : answer.status.message()});
  }
  return {};
}

Status AwsProvider::PurgeKeys(const std::vector<AwsInstance>& others,
                              std::vector<ProviderStep>& steps) {
  if (!input_.private_key.empty()) return {};
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsKeyPair> keys, Keys());
  const std::set<std::string> files = key_files_.Names();
  for (const AwsKeyPair& key : keys) {
    const auto made = key.tags.find(std::string(kAwsMadeByTag));
    if (made == key.tags.end()) continue;
    // Ray's key pair of a region is shared: this machine's half tells whether it is ours.
    const bool is_written = key_files_.HasWritten(key.name);
    const bool has_file = files.contains(key.name + ".pem");
    const bool is_shared = is_written && IsAwsKeyName(input_, key.name);
    if (!is_shared && made->second != input_.cluster_name) continue;
    const auto user = std::ranges::find(others, key.name, &AwsInstance::key_name);
    if (user != others.end()) {
      steps.push_back({Action::kKeep, "key pair", key.name, "used by " + user->id});
      continue;
    }
    const AwsAnswer answer = api_.Call(AwsService::kEc2, "DeleteKeyPair", {{"KeyName", key.name}});
    if (!answer.ok() && answer.fault != AwsFault::kNotFound) return answer.status;
    const std::string path = fmt::format("~/.ssh/{}.pem", key.name);
    if (is_written) key_files_.Remove(key.name);
    steps.push_back({Action::kDelete, "key pair", key.name,
                     is_written ? "and " + path
                     : has_file ? path + " stays: not written by hvdray up here"
                                : ""});
  }
  return {};
}

Status AwsProvider::PurgeProfile(const std::vector<AwsInstance>& others,
                                 std::vector<ProviderStep>& steps) {
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<AwsInstanceProfile> profile, Profile());
  const std::string name(kAwsProfileName);
  if (profile) {
    if (!profile->tags.contains(std::string(kAwsMadeByTag))) {
      steps.push_back({Action::kKeep, "instance profile", name, "not made by hvdray"});
      return {};
    }
    const auto user = std::ranges::find(others, profile->arn, &AwsInstance::profile_arn);
    if (user != others.end()) {
      steps.push_back({Action::kKeep, "instance profile", name, "used by " + user->id});
      return {};
    }
    HVDRAY_ASSIGN_OR_RETURN(const std::string elsewhere, UserElsewhere(profile->arn));
    if (!elsewhere.empty()) {
      steps.push_back({Action::kKeep, "instance profile", name, "used by " + elsewhere});
      return {};
    }
    for (const std::string& role : profile->roles) {
      const AwsAnswer answer = api_.Call(AwsService::kIam, "RemoveRoleFromInstanceProfile",
                                         {{"InstanceProfileName", name}, {"RoleName", role}});
      if (!answer.ok() && answer.fault != AwsFault::kNotFound) return answer.status;
    }
    const AwsAnswer answer =
        api_.Call(AwsService::kIam, "DeleteInstanceProfile", {{"InstanceProfileName", name}});
    if (!answer.ok() && answer.fault != AwsFault::kNotFound) return answer.status;
    steps.push_back({Action::kDelete, "instance profile", name, ""});
  }
  return PurgeRole(steps);
}

Status AwsProvider::PurgeRole(std::vector<ProviderStep>& steps) {
  AwsFacts facts;
  HVDRAY_RETURN_IF_ERROR(ReadRole(facts));
  if (!facts.has_role) return {};
  const std::string name(kAwsProfileName);
  if (!facts.is_role_ours) {
    steps.push_back({Action::kKeep, "role", name, "not made by hvdray"});
    return {};
  }
  const AwsAnswer policies =
      api_.Call(AwsService::kIam, "ListAttachedRolePolicies", {{"RoleName", name}});
  if (!policies.ok()) return policies.status;
  for (const XmlElement* policy :
       policies.root.ItemsAt("ListAttachedRolePoliciesResult/AttachedPolicies", "member")) {
    const AwsAnswer answer =
        api_.Call(AwsService::kIam, "DetachRolePolicy",
                  {{"RoleName", name}, {"PolicyArn", policy->TextAt("PolicyArn")}});
    if (!answer.ok() && answer.fault != AwsFault::kNotFound) return answer.status;
  }
  const AwsAnswer answer = api_.Call(AwsService::kIam, "DeleteRole", {{"RoleName", name}});
  if (answer.fault == AwsFault::kInUse) {
    steps.push_back({Action::kKeep, "role", name, answer.status.message()});
    return {};
  }
  if (!answer.ok() && answer.fault != AwsFault::kNotFound) return answer.status;
  steps.push_back({Action::kDelete, "role", name, ""});
  return {};
}

/// What was deleted must not be there any more.
Status AwsProvider::CheckPurged(const std::vector<ProviderStep>& steps) {
  std::vector<std::string> left;
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsSecurityGroup> groups,
                          Groups(fmt::format("tag:{}", kTagCluster), {input_.cluster_name}));
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsKeyPair> keys, Keys());
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<AwsInstanceProfile> profile, Profile());
  for (const ProviderStep& step : steps) {
    if (step.action != Action::kDelete) continue;
    const bool is_there =
        step.what == "security group"
            ? std::ranges::find(groups, step.detail, &AwsSecurityGroup::id) != groups.end()
        : step.what == "key pair"
            ? std::ranges::find(keys, step.name, &AwsKeyPair::name) != keys.end()
            : step.what == "instance profile" && profile;
    if (is_there) left.push_back(fmt::format("{} {}", step.what, step.name));
  }
  if (left.empty()) return {};
  return {ErrorCode::kCloudFailed, fmt::format("still there: {}", fmt::join(left, ", ")),
          "AWS may need a minute to forget it: run the command again"};
}

Result<std::vector<ProviderStep>> AwsProvider::Purge() {
  std::vector<ProviderStep> steps;
  HVDRAY_RETURN_IF_ERROR(PurgeGroups(steps));
  HVDRAY_ASSIGN_OR_RETURN(const std::vector<AwsInstance> others, Others());
  HVDRAY_RETURN_IF_ERROR(PurgeKeys(others, steps));
  HVDRAY_RETURN_IF_ERROR(PurgeProfile(others, steps));
  HVDRAY_RETURN_IF_ERROR(CheckPurged(steps));
  return steps;
}

}  // namespace

Result<std::unique_ptr<Provider>> MakeAwsProviderOn(const ClusterSpec& spec,
                                                    const Environment& environment, AwsEdge edge,
                                                    std::function<void()> cancel) {
  HVDRAY_ASSIGN_OR_RETURN(AwsInput input, ToAwsInput(spec));
  HVDRAY_ASSIGN_OR_RETURN(AwsAccountFacts account,
                          ReadAwsAccount(spec.provider.aws_credentials, environment));
  HVDRAY_ASSIGN_OR_RETURN(input.region, ChooseAwsRegion(input.region, account, environment));
  return std::unique_ptr<Provider>(std::make_unique<AwsProvider>(
      std::move(input), spec.auth, spec.provider.cache_stopped_nodes, environment,
      std::move(account), std::move(edge), std::move(cancel)));
}

Result<std::unique_ptr<Provider>> MakeAwsProvider(const ClusterSpec& spec,
                                                  const Environment& environment,
                                                  std::function<void(const std::string&)> note) {
  // Shared by the edge's functions and the canceller, all of which the provider owns.
  auto real = std::make_shared<RealEdge>(environment);
  AwsEdge edge = real->Edge(std::move(note));
  return MakeAwsProviderOn(spec, environment, std::move(edge), [real] { real->Cancel(); });
}

}  // namespace hvdray
