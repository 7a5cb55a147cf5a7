// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/user_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace hvdray {
namespace {

/// Who may set a variable that the agent sets for each worker.
enum class Setter : uint8_t {
  kHvdray,       ///< Nobody else.
  kUnlessTorch,  ///< The user, with --no-torch-env.
  kUser,         ///< The user, if he wants to.
  kGlooOnly,     ///< Has one value under hvdray.
};

struct Row {
  std::string_view name;
  Setter setter;
  std::string_view why = "it is each worker's own";
  std::string_view hint = {};
};

constexpr std::string_view kRendezvous = "it is the rendezvous of the worker's host";
constexpr std::string_view kOfJob = "hvdray sets it for each job";

constexpr auto kRows = std::to_array<Row>({
    {"HOROVOD_HOSTNAME", Setter::kHvdray},
    {"HOROVOD_RANK", Setter::kHvdray},
    {"HOROVOD_SIZE", Setter::kHvdray, "it is the number of workers", "-np N"},
    {"HOROVOD_LOCAL_RANK", Setter::kHvdray},
    {"HOROVOD_LOCAL_SIZE", Setter::kHvdray},
    {"HOROVOD_CROSS_RANK", Setter::kHvdray},
    {"HOROVOD_CROSS_SIZE", Setter::kHvdray},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", Setter::kHvdray, kRendezvous},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", Setter::kHvdray, kRendezvous},
    {"HOROVOD_ELASTIC", Setter::kHvdray, kOfJob, "--min-np N makes the job elastic"},
    {"HOROVOD_CONTROLLER", Setter::kGlooOnly, "under hvdray it is gloo"},
    {"HOROVOD_CPU_OPERATIONS", Setter::kGlooOnly, "under hvdray it is gloo"},
    {"HOROVOD_GLOO_IFACE", Setter::kUser},
    {"NCCL_SOCKET_IFNAME", Setter::kUser},
    {"GLOO_SOCKET_IFNAME", Setter::kUser},
    {"PYTHONUNBUFFERED", Setter::kUser},
    {"HVDRAY_RANK", Setter::kHvdray},
    {"HVDRAY_JOB_ID", Setter::kHvdray, kOfJob},
    {"HVDRAY_GENERATION", Setter::kHvdray, kOfJob},
    {"HVDRAY_CHANNEL_FD", Setter::kHvdray, kOfJob, "--channel"},
    {"RANK", Setter::kUnlessTorch},
    {"WORLD_SIZE", Setter::kUnlessTorch, "it is the number of workers", "-np N"},
    {"LOCAL_RANK", Setter::kUnlessTorch},
    {"LOCAL_WORLD_SIZE", Setter::kUnlessTorch},
    {"GROUP_RANK", Setter::kUnlessTorch},
    {"GROUP_WORLD_SIZE", Setter::kUnlessTorch},
    {"ROLE_NAME", Setter::kUnlessTorch, kOfJob},
    {"ROLE_RANK", Setter::kUnlessTorch},
    {"ROLE_WORLD_SIZE", Setter::kUnlessTorch},
    {"MASTER_ADDR", Setter::kUnlessTorch, "it is the address of rank 0's host",
     "the first host of -H has rank 0"},
    {"MASTER_PORT", Setter::kUnlessTorch, "rank 0's host finds a free port", "--master-port N"},
    {"TORCHELASTIC_RESTART_COUNT", Setter::kUnlessTorch, kOfJob},
    {"TORCHELASTIC_MAX_RESTARTS", Setter::kUnlessTorch, kOfJob, "--max-restarts N"},
    {"TORCHELASTIC_RUN_ID", Setter::kUnlessTorch, kOfJob},
    {"TORCHELASTIC_USE_AGENT_STORE", Setter::kUnlessTorch, "there is no agent's store"},
    {"TORCHELASTIC_ERROR_FILE", Setter::kUnlessTorch, "hvdray reads the worker's error there"},
});

const Row* RowFor(std::string_view name) {
  const auto* const row = std::ranges::find(kRows, name, &Row::name);
  return row == kRows.end() ? nullptr : row;
}

/// In an elastic job it is hvdray that leaves them out: they would go stale.
bool AreTorchsTheUsers(const JobSpec& spec) {
  return !*spec.is_torch_env && spec.is_torch_env.origin() != kElasticOrigin;
}

bool IsGpus(std::string_view name) {
  return name == "CUDA_VISIBLE_DEVICES" || name == "HIP_VISIBLE_DEVICES";
}

Status RefusedVariable(std::string_view label, std::string_view name, std::string_view why,
                       std::string hint) {
  return {ErrorCode::kUsage, fmt::format("{}: {} cannot be set: {}", label, name, why),
          hint.empty() ? "leave it out" : std::move(hint)};
}

Status RefusedRow(const Row& row, std::string_view label) {
  std::string hint(row.hint);
  if (row.setter == Setter::kUnlessTorch) {
    if (!hint.empty()) hint += "; ";
    hint += "--no-torch-env leaves torchrun's variables to you";
  }
  return RefusedVariable(label, row.name, row.why, std::move(hint));
}

}  // namespace

Status CheckUserVariable(const JobSpec& spec, std::string_view label, std::string_view entry) {
  const size_t equals = entry.find('=');
  const std::string_view name = entry.substr(0, equals);
  if (IsGpus(name) && *spec.ray.is_wanted && spec.ray.slot_gpus() > 0) {
    return RefusedVariable(label, name, "Ray assigns the GPUs of this job",
                           "--gpu-visibility host|rank; or omit --use-gpu");
  }
  const Row* row = RowFor(name);
  if (row == nullptr) return {};
  switch (row->setter) {
    case Setter::kUser:
      return {};
    case Setter::kUnlessTorch:
      return AreTorchsTheUsers(spec) ? Status() : RefusedRow(*row, label);
    case Setter::kGlooOnly:
      if (equals != std::string_view::npos && entry.substr(equals + 1) == "gloo") return {};
      return RefusedRow(*row, label);
    case Setter::kHvdray:
      return RefusedRow(*row, label);
  }
  return {};
}

std::vector<std::string> KeptVariables(const JobSpec& spec) {
  std::set<std::string> kept;
  for (const std::string& entry : *spec.env) {
    const std::string name = entry.substr(0, entry.find('='));
    const Row* row = RowFor(name);
    if (row == nullptr) continue;
    if (row->setter == Setter::kUser ||
        (row->setter == Setter::kUnlessTorch && AreTorchsTheUsers(spec))) {
      kept.insert(name);
    }
  }
  return {kept.begin(), kept.end()};
}

Status CheckRuntimeVariable(const JobSpec& spec, std::string_view label, const std::string& name) {
  HVDRAY_RETURN_IF_ERROR(CheckUserVariable(spec, label, name));
  if (RowFor(name) == nullptr) return {};
  return RefusedVariable(label, name, "hvdray's own value would win",
                         fmt::format("-x {}=VALUE", name));
}

}  // namespace hvdray
