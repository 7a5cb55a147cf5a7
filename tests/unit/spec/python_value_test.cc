// SPDX-License-Identifier: Apache-2.0
// Plain YAML scalars as PyYAML 6 types them; each row was checked against it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/job/option_layers.h"

namespace hvdray {
namespace {

/// "int 8": type and Python's text.
std::string Typed(const std::string& text) {
  static constexpr const char* kNames[] = {"None", "bool", "int", "float", "str"};
  const PythonValue value = TypePlainScalar(text);
  return std::string(kNames[value.index()]) + " " + FormatPython(value);
}

TEST(TypePlainScalarTest, FollowsYaml11) {
  const std::vector<std::pair<std::string, std::string>> rows = {{"10", "int 10"},
                                                                 {"-1", "int -1"},
                                                                 {"+4", "int 4"},
                                                                 {"010", "int 8"},
                                                                 {"0x10", "int 16"},
                                                                 {"0b11", "int 3"},
                                                                 {"1_000", "int 1000"},
                                                                 {"08", "str 08"},
                                                                 {"1.5", "float 1.5"},
                                                                 {"1.", "float 1.0"},
                                                                 {".5", "float 0.5"},
                                                                 {"-.5", "str -.5"},
                                                                 {"+.5", "str +.5"},
                                                                 {"-0.5", "float -0.5"},
                                                                 {"1e3", "str 1e3"},
                                                                 {"1.0e3", "str 1.0e3"},
                                                                 {"1.0e+3", "float 1000.0"},
                                                                 {"1.0e-3", "float 0.001"},
                                                                 {"5e+2", "str 5e+2"},
                                                                 {"1.0e+20", "float 1e+20"},
                                                                 {"1.0e+16", "float 1e+16"},
                                                                 {".inf", "float inf"},
                                                                 {"-.INF", "float -inf"},
                                                                 {".nan", "float nan"},
                                                                 {"true", "bool True"},
                                                                 {"no", "bool False"},
                                                                 {"On", "bool True"},
                                                                 {"y", "str y"},
                                                                 {"n", "str n"},
                                                                 {"tRue", "str tRue"},
                                                                 {"~", "None None"},
                                                                 {"", "None None"},
                                                                 {"null", "None None"},
                                                                 {"DYNAMIC", "str DYNAMIC"},

                                                                 {"+", "str +"},
                                                                 {".", "str ."},
                                                                 {"0", "int 0"},
                                                                 {"-0", "int 0"},
                                                                 {"1.0e+999", "float inf"},
                                                                 {"1.0e-999", "float 0.0"},
                                                                 {"0x", "str 0x"}};
  for (const auto& [text, typed] : rows) EXPECT_EQ(Typed(text), typed) << text;
}

TEST(IsTruthyTest, FollowsPython) {
  for (const char* text : {"0", "0.0", "false", "~", "-0.0"}) {
    EXPECT_FALSE(IsTruthy(TypePlainScalar(text))) << text;
  }
  for (const char* text : {"1", "-0.5", "true", "no?", ".nan"}) {
    EXPECT_TRUE(IsTruthy(TypePlainScalar(text))) << text;
  }
  EXPECT_FALSE(IsTruthy(PythonValue(std::string())));
}

}  // namespace
}  // namespace hvdray
