// SPDX-License-Identifier: Apache-2.0
// What a plain scalar is to PyYAML, with which Ray and Horovod read their files. Pure.
#ifndef HVDRAY_BASE_YAML_SCALAR_H_
#define HVDRAY_BASE_YAML_SCALAR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace hvdray {

/// None, bool, int, float or str.
using PythonValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// The type that PyYAML's safe loader gives a plain scalar (YAML 1.1): 010 is eight, 1:30 is
/// ninety, `1e3` is text (no dot, no sign), `on` is true. Dates and integers beyond 64 bits stay
/// text. Source: PyYAML resolver.py, constructor.py.
PythonValue TypePlainScalar(std::string_view text);

/// Whether a reader of YAML 1.1 or 1.2 takes the text, without quotes, for something else than a
/// string: what TypePlainScalar() types, a date, or a number such as 1e3.
bool IsTypedWithoutQuotes(std::string_view text);

/// A finite number as a plain scalar that TypePlainScalar() takes for a float: "3.0", "1.0e+30".
std::string FloatText(double number);

}  // namespace hvdray

#endif  // HVDRAY_BASE_YAML_SCALAR_H_
