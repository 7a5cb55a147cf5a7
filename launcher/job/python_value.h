// A YAML scalar as PyYAML types it and as Python prints it: Horovod's config file is read by
// Python, so workers see Python's text. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_PYTHON_VALUE_H_
#define HVDRAY_LAUNCHER_JOB_PYTHON_VALUE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace hvdray {

/// None, bool, int, float or str.
using PythonValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// The type that PyYAML's safe loader gives to a plain scalar (YAML 1.1): 010 is eight, `1e3` is
/// text (no dot, no sign), `on` is true. Base-60 numbers, dates and integers beyond 64 bits stay
/// text. Source: PyYAML resolver.py, constructor.py.
PythonValue TypePlainScalar(std::string_view text);

/// Python's str(): "True", "20.0", "1e-05".
std::string FormatPython(const PythonValue& value);

/// Python's bool(): 0, 0.0, "", None and False are not.
bool IsTruthy(const PythonValue& value);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_PYTHON_VALUE_H_
