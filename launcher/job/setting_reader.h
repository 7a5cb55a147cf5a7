// SPDX-License-Identifier: Apache-2.0
// From raw options to typed settings, one after another. Part of the spec builder.
#ifndef HVDRAY_LAUNCHER_JOB_SETTING_READER_H_
#define HVDRAY_LAUNCHER_JOB_SETTING_READER_H_

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/option_table.h"
#include "launcher/job/value_text.h"

namespace hvdray {

/// Reads settings one by one and remembers the first fault, so that a list of reads stays a list.
/// What no level names stays as it is. Errors of all reads: kUsage.
class SettingReader {
 public:
  explicit SettingReader(const LayerStack& layers) : layers_(layers) {}
  Status TakeStatus() { return std::move(status_); }

  void Flag(OptionId id, Setting<bool>* out) {
    Read(id, out, [](const RawOption& raw) { return FlagOf(raw); });
  }
  void Text(OptionId id, Setting<std::string>* out) {
    Read(id, out, [](const RawOption& raw) -> Result<std::string> {
      if (!raw.values.empty() && !raw.values.back().empty()) return raw.values.back();
      return Status(ErrorCode::kUsage, fmt::format("{} must not be empty", raw.label));
    });
  }
  void Time(OptionId id, Setting<Duration>* out) {
    Read(id, out, [](const RawOption& raw) { return DurationOf(raw); });
  }
  void TimeAboveZero(OptionId id, Setting<Duration>* out) {
    Read(id, out, [](const RawOption& raw) -> Result<Duration> {
      HVDRAY_ASSIGN_OR_RETURN(const Duration time, DurationOf(raw));
      if (time > Duration::zero()) return time;
      return Status(ErrorCode::kUsage, fmt::format("{} must be above 0", raw.label));
    });
  }
  template <typename T>
  void Whole(OptionId id, Setting<T>* out) {
    Read(id, out, [id](const RawOption& raw) -> Result<T> {
      HVDRAY_ASSIGN_OR_RETURN(const int64_t value, WholeOf(id, raw));
      return T(static_cast<int>(value));
    });
  }
  template <typename Enum>
  void Choice(OptionId id, Setting<Enum>* out) {
    Read(id, out, [id](const RawOption& raw) -> Result<Enum> {
      HVDRAY_ASSIGN_OR_RETURN(const size_t choice, ChoiceOf(id, raw));
      return static_cast<Enum>(choice);
    });
  }
  void Format(OptionId id, Setting<std::optional<PlanFormat>>* out) {
    Read(id, out, [id](const RawOption& raw) -> Result<std::optional<PlanFormat>> {
      HVDRAY_ASSIGN_OR_RETURN(const std::optional<size_t> choice, OptionalChoiceOf(id, raw));
      if (!choice) return std::optional<PlanFormat>();
      return std::optional<PlanFormat>(static_cast<PlanFormat>(*choice));
    });
  }
  /// Reads an option whose row and field say how; does nothing for others.
  template <typename T>
  void ByType(OptionId id, Setting<T>* out) {
    const OptionRow& row = RowOf(id);
    if constexpr (std::is_same_v<T, bool>) {
      Flag(id, out);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (row.type == OptionType::kText) Text(id, out);
    } else if constexpr (std::is_same_v<T, Duration>) {
      row.min > 0 ? TimeAboveZero(id, out) : Time(id, out);
    } else if constexpr (std::is_same_v<T, std::optional<PlanFormat>>) {
      Format(id, out);
    } else if constexpr (std::is_enum_v<T>) {
      Choice(id, out);
    } else if constexpr (std::is_constructible_v<T, int> && !std::is_same_v<T, double>) {
      if (row.type == OptionType::kInt) Whole(id, out);
    }
  }
  template <typename T, typename Parse>
  void Read(OptionId id, Setting<T>* out, Parse parse) {
    const RawOption* raw = layers_.Find(id);
    if (raw == nullptr || !status_.ok()) return;
    Result<T> value = parse(*raw);
    if (value.ok()) {
      out->Set(std::move(value).value(), raw->origin);
    } else {
      status_ = std::move(value).status();
    }
  }

 private:
  const LayerStack& layers_;
  Status status_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SETTING_READER_H_
