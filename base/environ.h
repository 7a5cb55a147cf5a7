// SPDX-License-Identifier: Apache-2.0
// The process environment, read once. Nothing else in the tree calls getenv (tools/lint.py).
#ifndef HVDRAY_BASE_ENVIRON_H_
#define HVDRAY_BASE_ENVIRON_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

/// Names to values, ordered by name. Value type; no I/O after FromProcess().
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  /// A copy of this process's environment. Drops entries without '='. If a name is there twice,
  /// the first entry counts, as for getenv. Threads: call before another thread may change it.
  static Environment FromProcess();

  /// nullopt when unset; an empty value is a value.
  std::optional<std::string> Get(const std::string& name) const;
  /// `fallback` when unset or empty.
  std::string GetOr(const std::string& name, std::string_view fallback) const;
  /// Adds or replaces; this copy only, not the process's environment.
  void Set(std::string name, std::string value) {
    values_.insert_or_assign(std::move(name), std::move(value));
  }
  void Unset(const std::string& name) { values_.erase(name); }
  const std::map<std::string, std::string>& values() const { return values_; }

  /// One "NAME=VALUE" per variable, ordered by name, as execve() takes them.
  std::vector<std::string> ToStrings() const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_ENVIRON_H_
