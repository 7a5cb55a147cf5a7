// SPDX-License-Identifier: Apache-2.0
// A value that knows where it came from.
#ifndef HVDRAY_LAUNCHER_JOB_SETTING_H_
#define HVDRAY_LAUNCHER_JOB_SETTING_H_

#include <string>
#include <utility>

namespace hvdray {

/// A value and its origin: "default", "flag --min-np", "env HVDRAY_GRACE", "job.yaml:7:3".
template <typename T>
class Setting {
 public:
  Setting() = default;
  explicit Setting(T value) : value_(std::move(value)) {}
  void Set(T value, std::string origin) {
    value_ = std::move(value);
    origin_ = std::move(origin);
  }
  const T& get() const { return value_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  const std::string& origin() const { return origin_; }
  bool is_default() const { return origin_ == "default"; }

 private:
  T value_{};
  std::string origin_ = "default";
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SETTING_H_
