// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/option_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "wire/message.h"

namespace hvdray {
namespace {

Status RefusedOption(std::string message, std::string hint = {}) {
  return {ErrorCode::kUsage, std::move(message), std::move(hint)};
}

}  // namespace

Result<std::optional<int>> ReadStdinRank(const RawOption& raw) {
  const std::string text = raw.last();
  if (text == "none") return std::optional<int>();
  const Result<int64_t> rank = ParseWhole(text, 0, 65535);
  if (rank.ok()) return std::optional<int>(static_cast<int>(*rank));
  return RefusedOption(fmt::format("{} must be a rank or none, not {}", raw.label, Quoted(text)));
}

Result<std::optional<int>> ReadThreads(const RawOption& raw) {
  const std::string text = raw.last();
  if (text == "inherit") return std::optional<int>();
  const Result<int64_t> threads = ParseWhole(text, 1, 65536);
  if (threads.ok()) return std::optional<int>(static_cast<int>(*threads));
  return RefusedOption(fmt::format("{} must be a number from 1 to 65536 or inherit, not {}",
                                   raw.label, Quoted(text)));
}

Result<std::vector<std::string>> ReadInterfaces(const RawOption& raw) {
  constexpr size_t kMaxNameBytes = 15;  // IFNAMSIZ less its NUL.
  std::vector<std::string> names;
  for (const std::string& list : raw.values) {
    size_t begin = 0;
    while (begin <= list.size()) {
      const size_t end = std::min(list.find(',', begin), list.size());
      const std::string name = list.substr(begin, end - begin);
      if (name.empty() || name.size() > kMaxNameBytes ||
          name.find_first_of(" \t\n/") != std::string::npos) {
        return RefusedOption(
            fmt::format("{} must list network interfaces, not {}", raw.label, Quoted(name)));
      }
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      begin = end + 1;
    }
  }
  return names;
}

Result<std::vector<std::string>> ReadPreload(const RawOption& raw) {
  constexpr const char* kHint = "--preload torch,horovod.torch, or --preload auto";
  std::vector<std::string> modules;
  for (const std::string& list : raw.values) {
    if (Status status = AddModules(list, wire::kMaxPreload, modules); !status.ok()) {
      return RefusedOption(fmt::format("{}: {}", raw.label, status.message()), kHint);
    }
  }
  const bool is_auto =
      std::find(modules.begin(), modules.end(), wire::kPreloadAuto) != modules.end();
  if (!is_auto || modules.size() == 1) return modules;
  return RefusedOption(fmt::format("{}: auto must stand alone", raw.label), kHint);
}

Result<std::vector<SyncWord>> ReadSyncWords(const RawOption& raw) {
  std::vector<SyncWord> words;
  for (const std::string& text : raw.values) {
    Result<SyncWord> word = ParseSyncWord(text);
    if (!word.ok()) {
      return RefusedOption(fmt::format("{} {}", raw.label, word.status().message()));
    }
    words.push_back(std::move(word).value());
  }
  return words;
}

Result<double> ReadAmount(const RawOption& raw) {
  Result<double> amount = ParseNumber(raw.last());
  if (!amount.ok())
    return RefusedOption(fmt::format("{} {}", raw.label, amount.status().message()));
  if (*amount >= 0 && *amount <= kMaxAmount) return amount;
  return RefusedOption(
      fmt::format("{} must be from 0 to {:g}, not {}", raw.label, kMaxAmount, Quoted(raw.last())));
}

Result<std::optional<double>> ReadOptionalAmount(const RawOption& raw) {
  HVDRAY_ASSIGN_OR_RETURN(const double amount, ReadAmount(raw));
  return std::optional<double>(amount);
}

Result<double> ReadLogLimit(const RawOption& raw) {
  constexpr double kLeast = double{64 << 20};
  Result<double> bytes = ParseBytes(raw.last());
  if (bytes.ok() && *bytes >= kLeast && *bytes <= kMaxAmount) return bytes;
  return RefusedOption(
      fmt::format("{} must be a size of at least 64MiB, not {}", raw.label, Quoted(raw.last())));
}

Result<std::vector<std::string>> ReadResources(const RawOption& raw) {
  for (const std::string& text : raw.values) {
    HVDRAY_RETURN_IF_ERROR(ParseSlotResource(raw.label, text).status());
  }
  return raw.values;
}

Result<std::vector<std::string>> ReadLabels(const RawOption& raw) {
  for (const std::string& text : raw.values) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return RefusedOption(fmt::format("{} must be NAME=VALUE, not {}", raw.label, Quoted(text)));
    }
  }
  return raw.values;
}

Result<std::pair<std::string, double>> ParseSlotResource(std::string_view label,
                                                         std::string_view text) {
  const auto wrong = [label](std::string_view how, std::string hint = {}) {
    return Status(ErrorCode::kUsage, fmt::format("{} {}", label, how), std::move(hint));
  };
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return wrong(fmt::format("must be NAME=AMOUNT, not {}", Quoted(text)));
  }
  const std::string name(text.substr(0, equals));
  if (name == "CPU" || name == "GPU") {
    return wrong(fmt::format("must not name {}", name),
                 name == "CPU" ? "--cpus-per-slot N" : "--use-gpu --gpus-per-slot N");
  }
  const std::string_view value = text.substr(equals + 1);
  const bool is_bytes = name == "memory" || name == "object_store_memory";
  const Result<double> amount = is_bytes ? ParseBytes(value) : ParseNumber(value);
  if (!amount.ok()) return wrong(amount.status().message());
  if (*amount < 0 || *amount > kMaxAmount) {
    return wrong(fmt::format("must be from 0 to {:g}, not {}", kMaxAmount, Quoted(value)));
  }
  if (*amount == 0) return wrong(fmt::format("must ask for more than 0 of {}", Quoted(name)));
  return std::pair(name, *amount);
}

}  // namespace hvdray
