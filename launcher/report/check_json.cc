// `hvdray check --json`: docs/check.md is the normative text.
#include <algorithm>
#include <cmath>
#include <utility>

#include "launcher/report/check_text.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// To the microsecond.
Json SecondsJson(std::chrono::nanoseconds time) {
  return std::round(std::chrono::duration<double>(time).count() * 1e6) / 1e6;
}

Json LimitJson(uint64_t limit) { return limit == UINT64_MAX ? Json(nullptr) : Json(limit); }

Json InspectionJson(const wire::Inspection& inspection) {
  Json json;
  json["kernel"] = TextOrNull(inspection.kernel);
  json["distribution"] = TextOrNull(inspection.distribution);
  json["libc"] = TextOrNull(inspection.libc);
  json["memory_bytes"] = inspection.memory_bytes;
  json["memory_available_bytes"] = inspection.available_bytes;
  json["memory_limit_bytes"] =
      inspection.memory_limit_bytes == 0 ? Json(nullptr) : Json(inspection.memory_limit_bytes);
  json["folders"] = Json::array();
  for (const wire::FolderFacts& folder : inspection.folders) {
    json["folders"].push_back({{"use", folder.use},
                               {"path", TextOrNull(folder.path)},
                               {"errno", folder.error},
                               {"writable", folder.is_writable},
                               {"noexec", folder.is_noexec},
                               {"total_bytes", folder.total_bytes},
                               {"free_bytes", folder.free_bytes}});
  }
  json["limits"] = Json::object();
  for (const wire::LimitFacts& limit : inspection.limits) {
    json["limits"][limit.name] = {{"soft", LimitJson(limit.soft)}, {"hard", LimitJson(limit.hard)}};
  }
  json["gpus"] = Json::array();
  for (const wire::GpuFacts& gpu : inspection.gpus) {
    json["gpus"].push_back(
        {{"name", gpu.name},
         {"memory_bytes", gpu.memory_bytes == 0 ? Json(nullptr) : Json(gpu.memory_bytes)}});
  }
  json["gpu_devices"] = inspection.gpu_device_count;
  json["gpu_driver"] = TextOrNull(inspection.gpu_driver);
  json["infiniband_devices"] = inspection.infiniband_count;
  json["command_path"] = TextOrNull(inspection.command_path);
  json["command_version"] = TextOrNull(inspection.command_version);
  json["missing_files"] = Json::array();
  for (const wire::MissingFile& file : inspection.missing_files) {
    json["missing_files"].push_back({{"path", file.path}, {"errno", file.error}});
  }
  json["modules"] = Json::array();
  for (const wire::ModuleFacts& module : inspection.modules) {
    json["modules"].push_back({{"name", module.name},
                               {"version", TextOrNull(module.version)},
                               {"error", TextOrNull(module.trouble)}});
  }
  json["name_addresses"] = inspection.name_addresses;
  json["unanswered"] = inspection.unanswered;
  return json;
}

Json InterfacesJson(const wire::HostFacts& facts) {
  Json interfaces = Json::array();
  for (const wire::InterfaceFacts& face : facts.interfaces) {
    Json addresses = Json::array();
    for (const wire::InterfaceAddress& address : face.addresses) {
      addresses.push_back(address.address);
    }
    interfaces.push_back(
        {{"name", face.name},
         {"addresses", std::move(addresses)},
         {"up", face.is_up},
         {"speed_mbps", face.speed_mbps == 0 ? Json(nullptr) : Json(face.speed_mbps)}});
  }
  return interfaces;
}

Json HostJson(const CheckedHost& host) {
  Json json;
  json["name"] = host.name;
  json["slots"] = host.slots;
  json["workers"] = host.workers;
  json["remote"] = host.is_remote;
  json["ready"] = host.lost.ok();
  json["error"] = ErrorJson(host.lost);
  json["ready_after_s"] = host.ready_after ? SecondsJson(*host.ready_after) : Json(nullptr);
  json["agent"] = TextOrNull(host.build);
  json["host_name"] = TextOrNull(host.facts.host_name);
  json["machine"] = TextOrNull(host.facts.machine);
  json["cpus"] = host.facts.cpu_count;
  json["cleanup"] = TextOrNull(host.facts.cleanup);
  json["interface"] = TextOrNull(host.nic);
  json["address"] = TextOrNull(host.address);
  json["interfaces"] = InterfacesJson(host.facts);
  json["clock"] = nullptr;
  if (host.clock) {
    json["clock"] = {{"offset_s", SecondsJson(host.clock->offset)},
                     {"bound_s", SecondsJson(host.clock->bound)}};
  }
  json["facts"] = host.inspection ? InspectionJson(*host.inspection) : Json(nullptr);
  return json;
}

Json FindingJson(const Finding& finding) {
  const bool is_coded = finding.code != ErrorCode::kOk;
  Json json;
  json["level"] = finding.level == FindingLevel::kError ? "error" : "warning";
  json["kind"] = finding.kind;
  json["code"] = is_coded ? Json(ErrorLabel(finding.code)) : Json(nullptr);
  json["name"] = is_coded ? Json(InfoOf(finding.code).name) : Json(nullptr);
  json["message"] = finding.text;
  json["hint"] = finding.hint;
  json["hosts"] = finding.hosts;
  return json;
}

}  // namespace

std::string CheckJson(const CheckFacts& facts, std::span<const Finding> findings) {
  const int exit_code = ExitCodeOf(findings);
  Json json;
  json["schema"] = kCheckSchema;
  json["build"] = facts.build;
  json["would_start"] = exit_code == 0;
  json["exit_code"] = exit_code;
  json["np"] = facts.np;
  json["command"] = TextOrNull(facts.command);
  json["hosts"] = Json::array();
  for (const CheckedHost& host : facts.hosts) json["hosts"].push_back(HostJson(host));
  json["unused_hosts"] = facts.unused_hosts;
  json["network_proved"] = facts.is_probed;
  json["closed_ways"] = Json::array();
  for (const ClosedWay& way : facts.closed_ways) {
    json["closed_ways"].push_back({{"from", facts.hosts[way.from].name},
                                   {"to", facts.hosts[way.to].name},
                                   {"error", ErrorJson(way.why)}});
  }
  json["findings"] = Json::array();
  for (const Finding& finding : findings) json["findings"].push_back(FindingJson(finding));
  return DumpJson(json, 2) + "\n";
}

}  // namespace hvdray
