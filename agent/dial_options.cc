#include "agent/dial_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "cluster/ray/seat_address.h"

namespace hvdray {
namespace {

constexpr int kMaxLimitSeconds = 86'400;
constexpr int kMaxPid = 1 << 22;  // PID_MAX_LIMIT of Linux
constexpr size_t kMaxGpuName = 128;

Result<int> ParseNumber(std::string_view name, std::string_view text, int lowest, int highest) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= lowest &&
      number <= highest) {
    return number;
  }
  return Status(ErrorCode::kUsage,
                fmt::format("{}: '{}' is no number from {} to {}", name, text, lowest, highest));
}

/// "0", "GPU-8932f937-d72c", "MIG-GPU-8932f937/1/0"
bool IsGpuName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxGpuName &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '/' || c == '_' || c == '.' || c == ':';
         });
}

Result<std::vector<std::string>> ParseGpus(std::string_view text) {
  std::vector<std::string> gpus;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    if (!IsGpuName(item)) {
      return Status(ErrorCode::kUsage, fmt::format("--gpus: '{}' is no name of a GPU", item));
    }
    gpus.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return gpus;
}

Status Take(std::string_view name, std::string_view value, DialOptions* options) {
  if (name == "--dial") {
    Result<std::vector<TcpAddress>> addresses = ParseSeatAddresses(value);
    if (!addresses.ok()) return std::move(addresses).status().WithContext(name);
    options->addresses = std::move(addresses).value();
  } else if (name == "--seat") {
    HVDRAY_ASSIGN_OR_RETURN(options->seat, ParseNumber(name, value, 0, kMaxSeat));
  } else if (name == "--gpus") {
    HVDRAY_ASSIGN_OR_RETURN(options->gpus, ParseGpus(value));
  } else if (name == "--path-end") {
    options->path_end = value;
  } else if (name == "--raylet") {
    HVDRAY_ASSIGN_OR_RETURN(options->raylet, ParseNumber(name, value, 2, kMaxPid));
  } else {
    HVDRAY_ASSIGN_OR_RETURN(const int seconds, ParseNumber(name, value, 1, kMaxLimitSeconds));
    options->limit = std::chrono::seconds(seconds);
  }
  return {};
}

bool HasValue(std::string_view name) {
  return name == "--dial" || name == "--seat" || name == "--gpus" || name == "--path-end" ||
         name == "--raylet" || name == "--dial-timeout";
}

}  // namespace

Result<DialOptions> ParseDialOptions(std::span<const std::string_view> words) {
  DialOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--keep-ray-env") {
      options.keeps_ray_environment = true;
      continue;
    }
    if (words[i] == "--probe-listener") {
      options.has_probe_listener = true;
      continue;
    }
    const size_t equals = words[i].find('=');
    const std::string_view name = words[i].substr(0, equals);
    if (!HasValue(name)) {
      return Status(ErrorCode::kUsage, fmt::format("unknown argument '{}' (see --help)", words[i]));
    }
    if (equals != std::string_view::npos) {
      HVDRAY_RETURN_IF_ERROR(Take(name, words[i].substr(equals + 1), &options));
    } else if (i + 1 < words.size()) {
      HVDRAY_RETURN_IF_ERROR(Take(name, words[++i], &options));
    } else {
      return Status(ErrorCode::kUsage, fmt::format("{} needs a value", name));
    }
  }
  if (options.addresses.empty() || options.seat < 0) {
    return Status(ErrorCode::kUsage, "--dial and --seat belong together");
  }
  return options;
}

}  // namespace hvdray
