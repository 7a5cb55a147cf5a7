// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/fd.h"
#include "base/text.h"
#include "collective/communicator.h"

namespace hvdray {
namespace {

Result<int> ReadInt(const Environment& environment, const std::string& name, int fallback, int min,
                    int max) {
  const auto text = environment.Get(name);
  if (!text || text->empty()) return fallback;
  const auto value = ParseInteger<int>(*text);
  if (!value || *value < min || *value > max) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("{}={} is not a number from {} to {}", name, *text, min, max));
  }
  return *value;
}

Result<Backend> ReadBackend(const Environment& environment) {
  const std::string text = environment.GetOr("HVDRAY_COLLECTIVE", "auto");
  if (text == "auto") return Backend::kAuto;
  if (text == "shm") return Backend::kShm;
  if (text == "gloo") return Backend::kGloo;
  if (text == "hierarchical") return Backend::kHierarchical;
  if (text == "nccl") return Backend::kNccl;
  return Status(
      ErrorCode::kSpecInvalid,
      fmt::format("HVDRAY_COLLECTIVE must be auto, shm, gloo, hierarchical or nccl, not {}", text));
}

/// It becomes part of a path of the rendezvous.
Status CheckName(const std::string& name) {
  constexpr size_t kMost = 200;
  const auto is_bad = [](char c) {
    return c <= 0x20 || c >= 0x7F || c == '/' || c == '%' || c == '?';
  };
  if (name.size() > kMost) {
    return {ErrorCode::kUsage,
            fmt::format("a communicator's name has {} bytes of at most {}", name.size(), kMost)};
  }
  if (std::ranges::none_of(name, is_bad)) return {};
  return {ErrorCode::kUsage,
          fmt::format("the communicator's name '{}' has a character other than letters, digits and "
                      "most of ASCII's signs",
                      ShownText(name))};
}

}  // namespace

Result<CommunicatorOptions> CommunicatorOptionsFrom(const Environment& environment,
                                                    const std::string& name) {
  constexpr int kMaxRanks = 1 << 20;
  HVDRAY_RETURN_IF_ERROR(CheckName(name));
  CommunicatorOptions options;
  const std::string host = environment.GetOr("HOROVOD_GLOO_RENDEZVOUS_ADDR", "");
  HVDRAY_ASSIGN_OR_RETURN(options.backend, ReadBackend(environment));
  HVDRAY_ASSIGN_OR_RETURN(options.device,
                          ReadInt(environment, "HOROVOD_LOCAL_RANK", 0, 0, kMaxRanks));
  if (host.empty()) return options;
  options.rendezvous_host = host;
  HVDRAY_ASSIGN_OR_RETURN(options.size, ReadInt(environment, "HOROVOD_SIZE", 1, 1, kMaxRanks));
  HVDRAY_ASSIGN_OR_RETURN(options.rank,
                          ReadInt(environment, "HOROVOD_RANK", 0, 0, options.size - 1));
  HVDRAY_ASSIGN_OR_RETURN(const int port,
                          ReadInt(environment, "HOROVOD_GLOO_RENDEZVOUS_PORT", 0, 1, 65535));
  HVDRAY_ASSIGN_OR_RETURN(const int timeout,
                          ReadInt(environment, "HOROVOD_GLOO_TIMEOUT_SECONDS", 30, 1, 1 << 30));
  HVDRAY_ASSIGN_OR_RETURN(const int generation,
                          ReadInt(environment, "HVDRAY_GENERATION", 1, 0, INT32_MAX));
  if (port == 0 && options.size > 1) {
    return Status(ErrorCode::kSpecInvalid,
                  "HOROVOD_GLOO_RENDEZVOUS_ADDR is set and HOROVOD_GLOO_RENDEZVOUS_PORT is not");
  }
  options.rendezvous_port = static_cast<uint16_t>(port);
  options.timeout = std::chrono::seconds(timeout);
  options.interface = environment.GetOr("HOROVOD_GLOO_IFACE", "");
  options.scope = fmt::format("hvdray_{}_{}", name, generation);
  HVDRAY_ASSIGN_OR_RETURN(const int check,
                          ReadInt(environment, "HVDRAY_CHECK_COLLECTIVES", 0, 0, 1));
  options.is_checking = check == 1;
  const std::string table =
      AtHome(environment.GetOr("HVDRAY_COLLECTIVE_TABLE", ""), environment.GetOr("HOME", ""));
  if (!table.empty() && options.rank == 0) {
    Result<std::string> text = ReadFile(table);
    if (!text.ok()) return std::move(text).status().WithContext("HVDRAY_COLLECTIVE_TABLE");
    Result<AlgorithmTable> parsed = ParseAlgorithmTable(*text);
    if (!parsed.ok()) {
      return std::move(parsed).status().WithContext("HVDRAY_COLLECTIVE_TABLE: " + table);
    }
    options.table = *parsed;
  }
  return options;
}

}  // namespace hvdray
