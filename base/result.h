// SPDX-License-Identifier: Apache-2.0
// Result<T>: a T, or the Status that says why there is none.
#ifndef HVDRAY_BASE_RESULT_H_
#define HVDRAY_BASE_RESULT_H_

#include <optional>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace hvdray {

/// Value type; owns its T. Threads: like any value.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// `status` is not ok.
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    HVDRAY_CHECK(!status_.ok());
  }
  template <typename U = T>
  requires(std::is_constructible_v<T, U&&> && !std::is_same_v<std::remove_cvref_t<U>, Status> &&
           !std::is_same_v<std::remove_cvref_t<U>, Result<T>>)
      Result(U&& value)  // NOLINT(google-explicit-constructor)
      : value_(std::in_place, std::forward<U>(value)) {}

  bool ok() const { return value_.has_value(); }
  /// ok, or why there is no value.
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  // The value. Aborts (HVDRAY_CHECK) unless ok().

  T& value() & {
    HVDRAY_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    HVDRAY_CHECK(ok());
    return *value_;
  }
  T value() && {
    HVDRAY_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// The value, or `fallback` if there is none.
  T value_or(T fallback) const& { return ok() ? *value_ : std::move(fallback); }
  T value_or(T fallback) && { return ok() ? std::move(*value_) : std::move(fallback); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace hvdray

#define HVDRAY_CONCAT_INNER_(a, b) a##b
#define HVDRAY_CONCAT_(a, b) HVDRAY_CONCAT_INNER_(a, b)
/// HVDRAY_ASSIGN_OR_RETURN(auto x, F()): sets x to the value of F(), or returns its Status.
#define HVDRAY_ASSIGN_OR_RETURN(lhs, expression) \
  HVDRAY_ASSIGN_OR_RETURN_(HVDRAY_CONCAT_(hvdray_result_, __LINE__), lhs, expression)
#define HVDRAY_ASSIGN_OR_RETURN_(result, lhs, expression) \
  auto result = (expression);                             \
  if (!result.ok()) return std::move(result).status();    \
  lhs = std::move(result).value()

#endif  // HVDRAY_BASE_RESULT_H_
