// SPDX-License-Identifier: Apache-2.0
// Calls a cloud provider for integration tests: provider_probe CLUSTER_FILE VERB [WORD...]. Prints
// one JSON value; notes and an error go to stderr, an error is exit code 1. SIGINT cancels.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/fd.h"
#include "base/json.h"
#include "cluster/cloud/aws_plan.h"
#include "cluster/cloud/aws_provider.h"
#include "cluster/cloud/aws_query.h"

namespace hvdray {
namespace {

Json ToJson(const CloudNode& node) {
  return {{"id", node.id},
          {"kind", std::string(KindWord(node.kind))},
          {"node_type", node.node_type},
          {"launch_hash", node.launch_hash},
          {"status", node.status},
          {"state", std::string(CloudStateWord(node.state))},
          {"internal_address", node.internal_address},
          {"external_address", node.external_address},
          {"machine_type", node.machine_type},
          {"zone", node.zone},
          {"is_spot", node.is_spot},
          {"tags", Json(node.tags)}};
}

Json ToJson(const std::vector<ProviderStep>& steps) {
  Json list = Json::array();
  for (const ProviderStep& step : steps) {
    list.push_back({{"action", std::string(ActionWord(step.action))},
                    {"what", step.what},
                    {"name", step.name},
                    {"detail", step.detail}});
  }
  return list;
}

Json ToJson(const std::vector<CloudNode>& nodes) {
  Json list = Json::array();
  for (const CloudNode& node : nodes) list.push_back(ToJson(node));
  return list;
}

Json ToJson(const PreparedCluster& prepared) {
  Json nodes = Json::array();
  for (const PreparedNode& node : prepared.nodes) {
    nodes.push_back({{"node_type", node.node_type},
                     {"kind", std::string(KindWord(node.kind))},
                     {"node_config", node.node_config},
                     {"launch_hash", node.launch_hash},
                     {"resources", Json(node.resources)}});
  }
  return {{"steps", ToJson(prepared.steps)},
          {"warnings", Json(prepared.warnings)},
          {"nodes", std::move(nodes)},
          {"private_key_path", prepared.private_key_path}};
}

Json ToJson(const CreateOutcome& outcome) {
  return {{"nodes", ToJson(outcome.nodes)},
          {"shortfall", outcome.shortfall.ok() ? "" : outcome.shortfall.ToString()}};
}

/// `words`: KIND TYPE COUNT REQUEST_ID ["on-demand"].
Result<CreateRequest> RequestOf(Provider& provider, const std::vector<std::string>& words) {
  HVDRAY_ASSIGN_OR_RETURN(const PreparedCluster prepared, provider.Prepare({}));
  for (const PreparedNode& node : prepared.nodes) {
    if (KindWord(node.kind) != words.at(0) || node.node_type != words.at(1)) continue;
    CreateRequest request;
    request.node = node;
    request.count = std::atoi(words.at(2).c_str());
    request.request_id = words.at(3);
    request.may_be_on_demand = words.size() > 4;
    return request;
  }
  return Status(ErrorCode::kUsage, "no such node type");
}

Result<Json> Call(Provider& provider, const std::string& verb,
                  const std::vector<std::string>& words) {
  if (verb == "list") {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> nodes, provider.List());
    return ToJson(nodes);
  }
  if (verb == "plan") {
    HVDRAY_ASSIGN_OR_RETURN(const ProviderPlan plan, provider.Plan());
    return Json{{"steps", ToJson(plan.steps)}, {"warnings", Json(plan.warnings)}};
  }
  if (verb == "prepare") {
    HVDRAY_ASSIGN_OR_RETURN(const PreparedCluster prepared, provider.Prepare({}));
    return ToJson(prepared);
  }
  if (verb == "create" || verb == "start") {
    HVDRAY_ASSIGN_OR_RETURN(const CreateRequest request, RequestOf(provider, words));
    HVDRAY_ASSIGN_OR_RETURN(const CreateOutcome outcome, verb == "create"
                                                             ? provider.Create(request)
                                                             : provider.StartStopped(request));
    Json json = ToJson(outcome);
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<CloudNode> listed, provider.List());
    json["listed"] = ToJson(listed);
    return json;
  }
  if (verb == "tag") {
    std::vector<std::string> ids;
    ProviderTags tags;
    for (const std::string& word : words) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        ids.push_back(word);
      } else {
        tags[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    HVDRAY_RETURN_IF_ERROR(provider.SetTags(ids, tags));
    return Json(true);
  }
  if (verb == "remove" || verb == "terminate") {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<RemovedNode> removed,
                            provider.Remove(words, verb == "remove" ? RemoveMode::kAsConfigured
                                                                    : RemoveMode::kTerminate));
    Json list = Json::array();
    for (const RemovedNode& node : removed) {
      list.push_back({{"id", node.id}, {"is_stopped", node.is_stopped}});
    }
    return list;
  }
  if (verb == "purge") {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<ProviderStep> steps, provider.Purge());
    return ToJson(steps);
  }
  return Status(ErrorCode::kUsage, "provider_probe: no verb " + verb);
}

/// The RunInstances form of a type, without what belongs to one launch.
Result<Json> Form(const ClusterSpec& spec, const std::string& type_name) {
  HVDRAY_ASSIGN_OR_RETURN(const AwsInput input, ToAwsInput(spec));
  for (const AwsTypeInput& type : input.types) {
    if (type.name != type_name) continue;
    Json config = type.node_config;
    for (const char* ours : {"SubnetIds", "SecurityGroupIds"}) config.erase(ours);
    AwsForm form;
    AddAwsObject(form, config);
    Json fields = Json::object();
    for (const auto& [name, value] : form) fields[name] = value;
    return fields;
  }
  return Status(ErrorCode::kUsage, "no such node type");
}

Result<Json> Run(const std::vector<std::string>& args) {
  HVDRAY_ASSIGN_OR_RETURN(const ClusterSpec spec, LoadClusterSpec(args.at(0)));
  const std::vector<std::string> words(args.begin() + 2, args.end());
  if (args[1] == "form") return Form(spec, words.at(0));
  HVDRAY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Provider> provider,
      MakeAwsProvider(spec, Environment::FromProcess(), [](const std::string& line) {
        std::fputs(("note: " + line + "\n").c_str(), stderr);
      }));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread canceller([&provider, signals] {
    int signo = 0;
    ::sigwait(&signals, &signo);
    provider->Cancel();
  });
  Result<Json> json = Call(*provider, args[1], words);
  ::kill(::getpid(), SIGINT);
  canceller.join();
  return json;
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  ::signal(SIGPIPE, SIG_IGN);
  const hvdray::Result<hvdray::Json> json = hvdray::Run({argv + 1, argv + argc});
  if (!json.ok()) {
    std::fputs((json.status().ToString() + "\n").c_str(), stderr);
    return 1;
  }
  return hvdray::WriteAll(1, hvdray::DumpJson(*json, 1) + "\n").ok() ? 0 : 1;
}
