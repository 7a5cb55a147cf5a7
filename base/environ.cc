// SPDX-License-Identifier: Apache-2.0
#include "base/environ.h"

#include <fmt/format.h>
#include <unistd.h>

namespace hvdray {

Environment Environment::FromProcess() {
  Environment result;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=', 1);
    if (equals == std::string_view::npos) continue;
    result.values_.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::optional<std::string> Environment::Get(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::string Environment::GetOr(const std::string& name, std::string_view fallback) const {
  const auto found = values_.find(name);
  return std::string(found == values_.end() || found->second.empty() ? fallback : found->second);
}

std::vector<std::string> Environment::ToStrings() const {
  std::vector<std::string> strings;
  strings.reserve(values_.size());
  for (const auto& [name, value] : values_) strings.push_back(fmt::format("{}={}", name, value));
  return strings;
}

}  // namespace hvdray
