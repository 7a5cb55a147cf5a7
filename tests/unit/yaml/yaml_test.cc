// SPDX-License-Identifier: Apache-2.0
// YAML files: trees and their places, typed reads, hostile input, random trees written and read
// back. Not here: what the keys of job and cluster files mean (tests/unit/spec,
// tests/unit/cluster_file), and YAML that yaml-cpp itself gets wrong.
#include "base/yaml.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/yaml.txt");

std::string Times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

std::string ErrorOf(std::string_view text) {
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  if (node.ok()) return "no error";
  EXPECT_EQ(node.status().code(), ErrorCode::kSpecInvalid);
  return node.status().message();
}

std::string Hint(std::string_view text) {
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  return node.ok() ? "no error" : node.status().hint();
}

void ExpectFaulty(std::string_view text, std::string_view place) {
  ExpectFault(text, ParseYaml(text, "f.yaml").status(), ErrorCode::kSpecInvalid, place);
}

YamlNode Parsed(std::string_view text) {
  Result<YamlNode> node = ParseYaml(text, "f.yaml");
  EXPECT_TRUE(node.ok()) << node.status().ToString();
  return node.ok() ? *node : *ParseYaml("", "f.yaml");
}

/// "{a: [1, "x"], b: null}": the tree in one line; quoted scalars in quotes.
std::string Shape(const YamlNode& node) {
  std::string out;
  switch (node.kind()) {
    case YamlNode::Kind::kNull:
      return "null";
    case YamlNode::Kind::kScalar:
      return node.is_quoted() ? '"' + node.text() + '"' : node.text();
    case YamlNode::Kind::kSequence:
      for (const YamlNode& item : node.items()) out += (out.empty() ? "" : ", ") + Shape(item);
      return '[' + out + ']';
    case YamlNode::Kind::kMap:
      for (const YamlNode::Entry& entry : node.entries()) {
        out += (out.empty() ? "" : ", ") + entry.key + ": " + Shape(entry.value);
      }
      return '{' + out + '}';
  }
  return "?";
}

TEST(YamlParseTest, EmptyFilesAreANullNodeAtTheirStart) {
  for (const char* text :
       {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "\xEF\xBB\xBF"}) {
    const YamlNode node = Parsed(text);
    EXPECT_TRUE(node.IsNull()) << text;
  }
  EXPECT_EQ(Parsed("").Where(), "f.yaml:1:1");
}

TEST(YamlParseTest, KeepsTheOrderAndTheTextOfTheFile) {
  EXPECT_EQ(Shape(Parsed("z: 1\na: [x, 007, 1.50]\nm: {k: v, l: }\nt: |\n  two\n  lines\n")),
            "{z: 1, a: [x, 007, 1.50], m: {k: v, l: null}, t: \"two\nlines\n\"}");
  EXPECT_EQ(Shape(Parsed("- a\n- 'b'\n- \"c\"\n- - d\n  - e\n-\n")),
            "[a, \"b\", \"c\", [d, e], null]");
  EXPECT_EQ(Shape(Parsed("just text")), "just text");
}

TEST(YamlParseTest, NullHasFiveSpellingsAndQuotesMakeThemText) {
  EXPECT_EQ(Shape(Parsed("[~, null, Null, NULL, '~', 'null', !!str null]")),
            "[null, null, null, null, \"~\", \"null\", \"null\"]");
  EXPECT_TRUE(Parsed("a:\n").Find("a")->IsNull());
}

TEST(YamlParseTest, EveryNodeKnowsItsPlace) {
  const YamlNode root =
      Parsed("# comment\nnp: 4\nhosts:\n  - a\n  - name: b\n    slots: 2\nlast:\nx: 1\n");
  EXPECT_EQ(root.Where(), "f.yaml:2:1");
  EXPECT_EQ(root.Find("np")->Where(), "f.yaml:2:5");
  EXPECT_EQ(root.Find("hosts")->Where(), "f.yaml:4:3");
  EXPECT_EQ(root.Find("hosts")->items()[1].Find("slots")->Where(), "f.yaml:6:12");
  EXPECT_EQ(root.entries()[1].where, "f.yaml:3:1");
  EXPECT_EQ(root.Find("last")->Where(), "f.yaml:7:1")
      << "a missing value stands where its key does";
}

TEST(YamlParseTest, FindIsNullptrForAbsentKeysAndForOtherKinds) {
  EXPECT_EQ(Parsed("{a: 1}").Find("b"), nullptr);
  EXPECT_EQ(Parsed("[a]").Find("a"), nullptr);
  EXPECT_EQ(Parsed("a").Find("a"), nullptr);
  EXPECT_EQ(Parsed("").Find(""), nullptr);
}

TEST(YamlParseTest, LinesAreCountedAlikeForAllLineBreaks) {
  for (const char* text : {"a: 1\nb: 2\nc: [\n", "a: 1\r\nb: 2\r\nc: [\r\n", "a: 1\rb: 2\rc: [\r",
                           "\xEF\xBB\xBF"
                           "a: 1\nb: 2\nc: [\n"}) {
    ExpectFaulty(text, "f.yaml:4:1");
  }
  EXPECT_EQ(Parsed("a: 1\r\nb: x\r\n").Find("b")->Where(), "f.yaml:2:4");
  EXPECT_EQ(Parsed("a: 1\r\nb: x\r\n").Find("b")->text(), "x");
}

TEST(YamlParseTest, DuplicateKeysNameBothPlaces) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"np: 1\nhosts: a\nnp: 2\n", "f.yaml:3:1", "f.yaml:1:1"},
      {"{a: {b: 1, c: 2, 'b': 3}}", "f.yaml:1:18", "f.yaml:1:6"},
      {"<<: {a: 1}\n<<: {b: 1}\n", "f.yaml:2:1", "f.yaml:1:1"}};
  for (const auto& [text, second, first] : table) {
    ExpectFaulty(text, second);
    EXPECT_TRUE(ErrorOf(text).ends_with(first)) << ErrorOf(text);
  }
}

TEST(YamlParseTest, ReadsWhatPyYamlReads) {
  // What yaml.safe_load() of PyYAML 6.0.4 gives, but for the keys, which are text here.
  const std::pair<const char*, const char*> table[] = {
      {"a: >+\n  x\n  y\n\n\nb: 1\n", "{a: \"x y\n\n\n\", b: 1}"},
      {"a: >+\n  x\n   m\n\n  y\n\n", "{a: \"x\n m\n\ny\n\n\"}"},
      {"a: >+\n  x\n   m\n\n \n# c\n", "{a: \"x\n m\n\n\n\"}"},
      {"a:\n- >+\n  x\n\n- b: &y !!str >+ # c\n   z", "{a: [\"x\n\n\", {b: \"z\"}]}"},
      {"a: >1+\n  x\n y\n\n...\n", "{a: \" x\ny\n\n\"}"},
      {"--- >+\n x\n\n...\n", "\"x\n\n\""},
      {"a: >+\n\n\nb: >+\n   x\n  \n   ", "{a: \"\n\n\", b: \"x\n\n\"}"},
      {"a: >\n  x\n\n\nb: |+\n  x\n\n# c\n", "{a: \"x\n\", b: \"x\n\n\"}"},
      {"a: |2-\n   x\n  y\n # c\nb: 1\n", "{a: \" x\ny\", b: 1}"},
      {"yes: 1\n010: 2\n1: 3\n2024-01-01: 4\n'': 5\n",
       "{yes: 1, 010: 2, 1: 3, 2024-01-01: 4, : 5}"},
      {"? a\n: b\n? c\n? |\n  d\n: e\nf g : h\n", "{a: b, c: null, d\n: e, f g: h}"},
      {"%YAML 1.1\n---\na: {\n  b, \"c\":d,\n  e: [1,\n2]\n}\n...\n",
       "{a: {b: null, c: d, e: [1, 2]}}"},
      {"\xEF\xBB\xBF# c\r\na: \"x\\\r\n   \\ty\\u00e9\"\r\n", "{a: \"x\ty\xC3\xA9\"}"},
      {"a: &x !!str 1\nb: [*x,*x]\n&k c: *k\n", "{a: \"1\", b: [\"1\", \"1\"], c: c}"}};
  for (const auto& [text, shape] : table) EXPECT_EQ(Shape(Parsed(text)), shape) << text;
}

TEST(YamlParseTest, AKeyInABlockNeedsItsColon) {
  ExpectFaulty("a: 1\nb\n", "f.yaml:2:1");
  ExpectFaulty("a:\n  b: 1\n  np:4\n", "f.yaml:3:3");
  ExpectFaulty("- a: 1\n  b\n- c\n", "f.yaml:2:3");
  EXPECT_NE(Hint("a: 1\nnp:4\n").find("KEY: VALUE"), std::string::npos);
}

/// The tree in one line, then the warnings.
std::string WithWarnings(std::string_view text) {
  std::vector<std::string> warnings;
  const Result<YamlNode> node = ParseYaml(text, "f.yaml", &warnings);
  if (!node.ok()) return node.status().message();
  std::string out = Shape(*node);
  for (const std::string& warning : warnings) out += "\n" + warning;
  return out;
}

TEST(YamlParseTest, OfDuplicateKeysTheLastCountsWhereWarningsAreAskedFor) {
  EXPECT_EQ(WithWarnings("np: 1\nhosts: a\nnp: 2\n"),
            "{np: 2, hosts: a}\n"
            "f.yaml:3:1: duplicate key np, first at f.yaml:1:1: the last value counts");
  EXPECT_EQ(WithWarnings("<<: {a: 1}\n<<: {b: 2}\n"),
            "{b: 2, a: 1}\nf.yaml:2:1: duplicate key <<, first at f.yaml:1:1: both are merged; "
            "where they disagree, the last value counts");
  EXPECT_EQ(WithWarnings("<<: {a: 1, b: 1}\n<<: {b: 2}\n").substr(0, 12), "{b: 2, a: 1}");
  EXPECT_EQ(WithWarnings("<<: {a: 1}\n'<<': 2\n").substr(0, 13), "{a: 1, <<: 2}");
}

TEST(YamlParseTest, AKeyOnWhichMergedMappingsDisagreeIsToldWithBothPlaces) {
  const std::string told = WithWarnings("m: &m {x: 1}\nn: &n {x: 2}\nu:\n  <<: [*m, *n]\n");
  EXPECT_TRUE(told.starts_with("{m: {x: 1}, n: {x: 2}, u: {x: 1}}\nf.yaml:4:3: ")) << told;
  EXPECT_NE(told.find("f.yaml:1:8"), std::string::npos) << told;
  EXPECT_NE(told.find("f.yaml:2:8"), std::string::npos) << told;
  for (const char* same :
       {"m: &m {x: [1, 'a']}\nn: &n {x: [1, a]}\nu: {<<: [*m, *n]}\n",
        "m: &m {x: 1}\nn: &n {x: 2}\nu: {<<: [*m, *n], x: 3}\n", "u: {<<: [&a {x: 1}, *a]}\n"}) {
    EXPECT_EQ(WithWarnings(same).find('\n'), std::string::npos) << WithWarnings(same);
  }
  EXPECT_NE(WithWarnings("u: {<<: [{x: 1}, {x: '1'}]}\n").find("disagree"), std::string::npos);
}

TEST(YamlParseTest, AnAnchorThatIsDefinedAgainIsToldWithBothPlaces) {
  const std::string told = WithWarnings("a: &x 1\nb: !!map &x {x: 2}\nc: [&y , *x]\nd: &y\n");
  EXPECT_TRUE(
      told.starts_with("{a: 1, b: {x: 2}, c: [null, {x: 2}], d: null}\n"
                       "f.yaml:2:4: anchor x is defined again, first at f.yaml:1:4: "))
      << told;
  EXPECT_NE(told.find("\nf.yaml:4:4: anchor y is defined again, first at f.yaml:3:5: "),
            std::string::npos)
      << told;
}

TEST(YamlParseTest, KeysMustBeScalars) {
  ExpectFaulty("? [1, 2]\n: x\n", "f.yaml:1:3");
  ExpectFaulty("? {a: b}\n: x\n", "f.yaml:1:3");
  ExpectFaulty("a: &l [1]\n*l : x\n", "f.yaml:2:1");
  ExpectFaulty(": x\n", "f.yaml:1:1");
  ExpectFaulty("a: 1\n~: x\n", "f.yaml:2:1");
  EXPECT_EQ(Shape(Parsed("a: &k key\n*k : x\n'null': y\n")), "{a: key, key: x, null: y}");
}

TEST(YamlParseTest, RefusesASecondDocument) {
  ExpectFaulty("a: 1\n---\nb: 2\n", "f.yaml:2:1");
  ExpectFaulty("- a\nb: 1\n", "f.yaml:2:1");
  EXPECT_EQ(Shape(Parsed("---\na: 1\n...\n")), "{a: 1}");
}

TEST(YamlParseTest, SyntaxErrorsNameTheLineAndOftenAHint) {
  ExpectFaulty("a: 1\nb: 'x", "f.yaml:2:6");
  ExpectFaulty("a: b: c\n", "f.yaml:1:5");
  EXPECT_NE(Hint("a: b: c\n"), "");
  ExpectFaulty("a: 1\n]\n", "f.yaml:2:1");
  ExpectFaulty("a: @x\n", "f.yaml:1:4");
  EXPECT_NE(Hint("a: @x\n").find('@'), std::string::npos);
  ExpectFaulty("a: *nobody\n", "f.yaml:1:4");
  EXPECT_NE(Hint("a: *.py\n").find('*'), std::string::npos);
  EXPECT_NE(Hint("- &a |\n  x\n").find("anchor"), std::string::npos);
  EXPECT_EQ(Shape(Parsed("- &a |\n   x\n")), "[\"x\n\"]");
  ExpectFaulty("%YAML 3.0\n---\na: 1\n", "f.yaml:1:1");
  ExpectFaulty("a: \"\\ud800\"\n", "f.yaml:1:11");
}

TEST(YamlParseTest, QuotesThatTheFilesEndCutsOffAreRefused) {
  for (const char* value : {"'x\n", "\"x\n", "'it''s\n", "\"\\\"\n", "'\n", "&a 'x\n",
                            "!!str  \"x\n", "&a !!str 'x\n", "\"x\\\\\\\"\n", "'x\n  y ''\n"}) {
    ExpectFaulty(std::string("a: 1\nb: ") + value, "f.yaml:2:4");
  }
  EXPECT_EQ(
      Shape(Parsed("[\"x\\\\\", 'it''s', '', \"\", \"\\\"\", &a 'a', !!str 'b', \"l1\n  l2\"]\n")),
      "[\"x\\\", \"it's\", \"\", \"\", \"\"\", \"a\", \"b\", \"l1 l2\"]");
  EXPECT_EQ(Shape(Parsed("a: |\n  'x\nb: it's\n")), "{a: \"'x\n\", b: it's}");
}

TEST(YamlParseTest, TabsAsIndentationAreNamedAsSuch) {
  for (const char* text : {"a:\n\tb: 1\n", "\ta: 1\n", "a:\n  b: 1\n\tc: 2\n", "a:\n  \tb: 1\n"}) {
    ExpectFaulty(text, "");
    EXPECT_NE(Hint(text).find("tabs"), std::string::npos) << text;
  }
  EXPECT_EQ(Shape(Parsed("a:\t1\t\nb: [1,\t2]\t# c\nc:\t\n-\t'x'\t\nd: true\t\n")),
            "{a: 1, b: [1, 2], c: [\"x\"], d: true}")
      << "tabs elsewhere are fine";
}

TEST(YamlParseTest, TagsOfTheCoreSchemaWorkAndOthersAreRefused) {
  EXPECT_EQ(Shape(Parsed("[!!str 3, !!int '4', !!seq [a], ! x]")), "[\"3\", 4, [a], \"x\"]");
  EXPECT_EQ(Shape(Parsed("[!!float 3, !!float '-3', !!float 010, !!float .5, !!float 1e30]")),
            "[3.0, -3.0, 10.0, 0.5, 1.0e+30]");
  EXPECT_EQ(Shape(Parsed("[!!null '', !!null ~, !!null x, !!bool 'yes', !!str ~, !!str 12]")),
            "[null, null, null, yes, \"~\", \"12\"]");
  EXPECT_EQ(Shape(Parsed("u:\n  !!merge <<: {x: 1}\n")), "{u: {x: 1}}") << "as Go writes it";
  ExpectFaulty("a: !python/object x\n", "f.yaml:1:4");
  ExpectFaulty("a: !mine [1]\n", "f.yaml:1:4");
  ExpectFaulty("!mine {a: 1}\n", "f.yaml:1:1");
  for (const auto* value : {"!!binary aGVsbG8=", "!!set {a}", "!!omap [a: 1]", "!!float x",
                            "!!int x", "!!bool x", "!!str [a]", "!!timestamp 2026-01-01"}) {
    ExpectFaulty("a: " + std::string(value) + "\n", "f.yaml:1:4");
  }
}

TEST(YamlParseTest, AliasesStandForTheirAnchor) {
  const YamlNode root = Parsed("a: &x [1, {b: 2}]\nc: *x\nd: &y\ne: *y\nf: &z t\ng: [*z, *z]\n");
  EXPECT_EQ(Shape(root), "{a: [1, {b: 2}], c: [1, {b: 2}], d: null, e: null, f: t, g: [t, t]}");
  EXPECT_EQ(root.Find("c")->Where(), "f.yaml:1:4") << "faults are where the value was written";
  EXPECT_EQ(Shape(Parsed("a: &x 1\nb: &x 2\nc: *x\n")), "{a: 1, b: 2, c: 2}");
}

TEST(YamlParseTest, MergeKeysFillInWhatIsNotSaid) {
  EXPECT_EQ(Shape(Parsed("base: &b {x: 1, y: 2}\nuse:\n  w: 0\n  <<: *b\n  y: 3\n")),
            "{base: {x: 1, y: 2}, use: {w: 0, x: 1, y: 3}}");
  EXPECT_EQ(Shape(Parsed("u:\n  <<: [{a: 1}, {a: 2, b: 2}]\n")), "{u: {a: 1, b: 2}}");
  EXPECT_EQ(Shape(Parsed("'<<': {a: 1}\n")), "{<<: {a: 1}}") << "quoted, it is a key as any other";
  ExpectFaulty("<<: 3\n", "f.yaml:1:5");
  ExpectFaulty("<<: [{a: 1}, 2]\n", "f.yaml:1:5");
}

/// The value of the one key in "v: <text>".
YamlNode Value(const std::string& text) {
  const Result<YamlNode> root = ParseYaml("v: " + text, "job.yaml");
  EXPECT_TRUE(root.ok()) << text << ": " << root.status().ToString();
  return *root->Find("v");
}

/// Expects that `result`, read from `text`, names the place and the key.
template <typename T>
void ExpectWrong(std::string_view text, const Result<T>& result, const std::string& key,
                 std::string_view place = "job.yaml:1:4") {
  ExpectFault(text, result.status(), ErrorCode::kSpecInvalid, place);
  EXPECT_NE(result.status().message().find(": " + key + " "), std::string::npos) << text;
}

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(YamlReadTest, IntegersAreThoseOfYaml11ThatHaveOneMeaning) {
  const std::pair<const char*, int64_t> table[] = {{"4", 4},
                                                   {"-4", -4},
                                                   {"+4", 4},
                                                   {"0", 0},
                                                   {"-0", 0},
                                                   {"0x8C", 140},
                                                   {"-0b11", -3},
                                                   {"1_000", 1000},
                                                   {"9223372036854775807", kMax},
                                                   {"-9223372036854775808", kMin}};
  for (const auto& [text, wanted] : table) {
    const Result<int64_t> value = Value(text).AsInt("np", kMin, kMax);
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().ToString();
    EXPECT_EQ(*value, wanted) << text;
  }
}

TEST(YamlReadTest, IntegerFaultsSayWhatTheValueIs) {
  const std::pair<const char*, const char*> table[] = {
      {"four", "job.yaml:1:4"},  {"'4'", "job.yaml:1:4"},
      {"4.0", "job.yaml:1:4"},   {"yes", "job.yaml:1:4"},
      {"", "job.yaml:1:1"},      {"~", "job.yaml:1:4"},
      {"[4]", "job.yaml:1:4"},   {"{a: 4}", "job.yaml:1:4"},
      {"0x", "job.yaml:1:4"},    {"0x-1", "job.yaml:1:4"},
      {"12:30", "job.yaml:1:4"}, {"+-4", "job.yaml:1:4"},
      {"+", "job.yaml:1:4"},     {"010", "job.yaml:1:4"},
      {"-010", "job.yaml:1:4"},  {"0", "job.yaml:1:4"},
      {"65537", "job.yaml:1:4"}, {"99999999999999999999", "job.yaml:1:4"}};
  for (const auto& [text, place] : table) {
    ExpectWrong(text, Value(text).AsInt("np", 1, 65536), "np", place);
  }
  EXPECT_NE(Value("'4'").AsInt("np", 1, 9).status().hint(), "");
}

TEST(YamlReadTest, DoublesAreFiniteDecimals) {
  const std::pair<const char*, double> table[] = {{"1", 1},       {"-1.5", -1.5},  {"+2.5", 2.5},
                                                  {".5", 0.5},    {"5.", 5},       {"1e3", 1000},
                                                  {"1E-2", 0.01}, {"1_0.5", 10.5}, {"0x10", 16}};
  for (const auto& [text, wanted] : table) {
    const Result<double> value = Value(text).AsDouble("speed");
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().ToString();
    EXPECT_DOUBLE_EQ(*value, wanted) << text;
  }
  for (const char* text : {".inf", "-.inf", ".nan", "inf", "nan", "0x1p3", "1e999", "1.2.3", "+-1",
                           "''", "'1'", "yes", "~", "[1]", "1 2", "010", "1:30", "1:30.5"}) {
    EXPECT_FALSE(Value(text).AsDouble("speed").ok()) << text;
  }
  ExpectWrong("fast", Value("fast").AsDouble("speed"), "speed");
}

TEST(YamlReadTest, BooleansHaveTheSpellingsOfYaml11) {
  for (const char* text : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}) {
    const Result<bool> value = Value(text).AsBool("b");
    EXPECT_TRUE(value.ok() && *value) << text;
  }
  for (const char* text : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    const Result<bool> value = Value(text).AsBool("b");
    EXPECT_TRUE(value.ok() && !*value) << text;
  }
  for (const char* text : {"tRUE", "y", "1", "0", "'true'", "", "[true]", "{}"}) {
    EXPECT_FALSE(Value(text).AsBool("b").ok()) << text;
  }
  ExpectWrong("1", Value("1").AsBool("b"), "b");
}

TEST(YamlReadTest, AnyScalarIsAStringAsItStands) {
  const std::pair<const char*, const char*> table[] = {
      {"x", "x"}, {"007", "007"},   {"1.50", "1.50"},      {"yes", "yes"},
      {"''", ""}, {"' a '", " a "}, {"\"a\\tb\"", "a\tb"}, {"a b # c", "a b"}};
  for (const auto& [text, wanted] : table) {
    const Result<std::string> value = Value(text).AsString("s");
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().ToString();
    EXPECT_EQ(*value, wanted) << text;
  }
  ExpectWrong("~", Value("~").AsString("s"), "s");
  EXPECT_NE(Value("~").AsString("s").status().hint(), Value("null").AsString("s").status().hint());
  ExpectWrong("[x]", Value("[x]").AsString("s"), "s");
  ExpectWrong("\"a\\0b\"", Value("\"a\\0b\"").AsString("s"), "s");
}

TEST(YamlReadTest, ListsOfStringsNameTheFaultyItem) {
  const Result<std::vector<std::string>> value =
      Value("[python, train.py, 3, 'x y']").AsStrings("c");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, (std::vector<std::string>{"python", "train.py", "3", "x y"}));
  EXPECT_TRUE(Value("[]").AsStrings("c").ok());
  ExpectWrong("[a, [b]]", Value("[a, [b]]").AsStrings("command"), "command[1]", "job.yaml:1:8");
  ExpectWrong("[a, null]", Value("[a, null]").AsStrings("command"), "command[1]", "job.yaml:1:8");
  ExpectWrong("a", Value("a").AsStrings("command"), "command");
}

TEST(YamlReadTest, MessagesStayOneShortLineWhateverTheValueHolds) {
  ExpectWrong("\"a\\e[31m\\nb\\x7f\"", Value("\"a\\e[31m\\nb\\x7f\"").AsInt("np", 0, 1), "np");
  const std::string message = Value(std::string(100'000, 'x')).AsInt("np", 0, 1).status().message();
  EXPECT_LT(message.size(), 150U);
  EXPECT_NE(message.find("xxx...\""), std::string::npos) << message;
  std::string snowmen;
  for (int i = 0; i < 100; ++i) snowmen += "\xE2\x98\x83";
  const std::string cut = Value(snowmen).AsInt("np", 0, 1).status().message();
  EXPECT_NE(cut.find("\xE2\x98\x83...\""), std::string::npos) << "cut between characters: " << cut;
}

TEST(YamlHostileTest, DepthIsLimitedTo64) {
  EXPECT_EQ(ErrorOf(Times(63, "[") + "1" + Times(63, "]")), "no error");
  EXPECT_EQ(ErrorOf(Times(64, "[") + "1" + Times(64, "]")), "no error");
  ExpectFaulty(Times(65, "[") + "1" + Times(65, "]"), "f.yaml:1:65");
  ExpectFaulty(Times(500, "[") + Times(500, "]"), "f.yaml:1:65");
  ExpectFaulty(Times(100'000, "- "), "f.yaml:1:129");
  ExpectFaulty(Times(200, "{a: ") + Times(200, "}"), "f.yaml:1:257");
  EXPECT_NE(ErrorOf(Times(100'000, "[")), "no error");
  EXPECT_NE(ErrorOf(Times(100'000, "{a: ")), "no error");
}

TEST(YamlHostileTest, AliasesDoNotGetAroundTheDepth) {
  std::string text = "- &a0 [x]\n";
  for (int i = 1; i < 64; ++i) {
    text += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  const std::string error = ErrorOf(text);
  EXPECT_NE(error.find("64"), std::string::npos) << error;
}

TEST(YamlHostileTest, BillionLaughsAreRefusedWhereTheyPassTheLimit) {
  std::string text = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + Times(8, alias + ", ") +
            alias + "]\n";
  }
  ExpectFaulty(text, "f.yaml:6:20");
}

TEST(YamlHostileTest, LongTextCannotBeMultipliedByAliases) {
  std::string text = "- &big " + std::string(500'000, 'x') + "\n";
  text += Times(1000, "- *big\n");
  EXPECT_NE(ErrorOf(text).find("250000"), std::string::npos);
}

TEST(YamlHostileTest, LongKeysCannotBeMultipliedByAliases) {
  std::string text = "- &big {" + std::string(1000, 'x') + ": 1}\n";
  text += Times(30'000, "- *big\n");
  EXPECT_NE(ErrorOf(text).find("250000"), std::string::npos);
}

TEST(YamlHostileTest, MergeKeysCannotMultiplyMaps) {
  std::string text = "- &m0 {a: 1";
  for (int i = 0; i < 1000; ++i) text += ", k" + std::to_string(i) + ": 1";
  text += "}\n" + Times(1000, "- {<<: *m0}\n");
  EXPECT_NE(ErrorOf(text).find("250000"), std::string::npos);
}

TEST(YamlHostileTest, AnAliasInsideItsOwnValueIsRefused) {
  ExpectFaulty("a: &x [*x]\n", "f.yaml:1:8");
  ExpectFaulty("a: &x {b: *x}\n", "f.yaml:1:11");
  ExpectFaulty("&x {<<: *x}\n", "f.yaml:1:9");
}

TEST(YamlHostileTest, SizeIsLimitedToOneMebibyte) {
  EXPECT_EQ(ErrorOf("a: " + std::string((1 << 20) - 3, 'x')), "no error");
  ExpectFaulty("a: " + std::string((1 << 20) - 2, 'x'), "f.yaml:1:1");
}

TEST(YamlHostileTest, ManyKeysTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_EQ(node->entries().size(), 50'000U);
}

TEST(YamlHostileTest, ManyDuplicateKeysTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "k: 1\n";
  std::vector<std::string> warnings;
  const Result<YamlNode> node = ParseYaml(text, "f.yaml", &warnings);
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_EQ(node->entries().size(), 1U);
}

TEST(YamlHostileTest, ControlBytesAreRefusedWithTheirPlace) {
  using namespace std::string_literals;
  ExpectFaulty("a: 1\nb: \0x\n"s, "f.yaml:2:4");
  ExpectFaulty("a: 1\n\x04\nhidden: 1\n", "f.yaml:2:1");
  ExpectFaulty("a: \x1b[31m\n", "f.yaml:1:4");
  ExpectFaulty("a: \x7f\n", "f.yaml:1:4");
  ExpectFaulty("# comment \x01\n", "f.yaml:1:11");
  // Line breaks of YAML 1.1 alone, and what PyYAML refuses.
  for (const char* odd : {"\xC2\x81", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBF\xBE"}) {
    ExpectFaulty("# c" + std::string(odd) + "a: 1\n", "f.yaml:1:4");
  }
  EXPECT_EQ(ErrorOf("a: \xC2\xA0\xE2\x80\xA7\xEF\xBF\xBD\n"), "no error");
}

TEST(YamlHostileTest, OnlyUtf8IsRead) {
  for (const char* text : {"a: \xff\n", "a: \xc0\xaf\n", "a: \xed\xa0\x80\n",
                           "a: \xf5\x80\x80\x80\n", "a: \xe2\x98\n", "a: \xf4\x90\x80\x80\n",
                           "a: \xe0\x80\x80\n", "a: \x80\n", "a: \xf0\x80\x80\x80\n", "a: \xe2"}) {
    ExpectFaulty(text, "f.yaml:1:4");
  }
  ExpectFaulty(std::string_view("\xff\xfe"
                                "a\0:\0",
                                6),
               "f.yaml:1:1");
  ExpectFaulty(std::string_view("\xfe\xff\0a\0:", 6), "f.yaml:1:1");
  EXPECT_EQ(ErrorOf("a: \xc3\xbc \xe2\x98\x83 \xf0\x9f\x98\x80\n"), "no error");
}

TEST(YamlTest, AnIntegerBeyond64BitsIsToldWithItsPlace) {
  for (const char* text : {"99999999999999999999", "-9223372036854775809", "18446744073709551616",
                           "0x1FFFFFFFFFFFFFFFF"}) {
    const Status status = CheckIntegers(Parsed(fmt::format("{{a: [1, {}]}}", text)));
    EXPECT_EQ(status.message(),
              fmt::format("f.yaml:1:9: the integer {} has more than 64 bits", text));
    EXPECT_TRUE(CheckIntegers(Parsed(fmt::format("{{a: '{}'}}", text))).ok()) << "text";
  }
  EXPECT_TRUE(CheckIntegers(Parsed("[9223372036854775807, -9223372036854775808, 1e30, 0x, 0xyz, "
                                   "0123456789012345678901234, 1.5, a, ~, 2026-11-28]"))
                  .ok());
}

TEST(YamlHostileTest, DeepAndWideFlowInputEndsInTimeAndMemory) {
  for (const char* piece :
       {"[", "{", "[a,", "{a", "[[],", "&a ", "*a ", "? ", ": ", "\"a", "!", "'"}) {
    const std::string text = Times(100'000, piece);
    (void)ParseYaml(std::string_view(text).substr(0, 100'000), "f.yaml").ok();
  }
}

struct Tree {
  YamlNode::Kind kind = YamlNode::Kind::kNull;
  std::string text;
  std::vector<std::pair<std::string, Tree>> children;  ///< Keys are empty in a list.
};

class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  Tree MakeTree(int depth) {
    Tree tree;
    const uint32_t pick = Below(depth > 4 ? 4 : 7);
    if (pick == 0) return tree;
    if (pick <= 3) {
      tree.kind = YamlNode::Kind::kScalar;
      tree.text = MakeText();
      return tree;
    }
    tree.kind = pick == 4 ? YamlNode::Kind::kSequence : YamlNode::Kind::kMap;
    const uint32_t count = 1 + Below(4);
    for (uint32_t i = 0; i < count; ++i) {
      const std::string key = "k" + std::to_string(i) + (Below(3) == 0 ? MakeText() : "");
      const bool is_map = tree.kind == YamlNode::Kind::kMap;
      tree.children.emplace_back(is_map ? key : "", MakeTree(depth + 1));
    }
    return tree;
  }

  /// `indent`: of the lines that follow; a block starts on a line of its own.
  std::string Write(const Tree& tree, int indent) {
    if (tree.kind == YamlNode::Kind::kNull) return Below(2) == 0 ? " ~\n" : " null\n";
    if (tree.kind == YamlNode::Kind::kScalar) return " " + Quote(tree.text) + "\n";
    if (Below(3) == 0) return " " + Flow(tree) + "\n";
    std::string out = "\n";
    for (const auto& [key, child] : tree.children) {
      out += std::string(static_cast<size_t>(indent), ' ');
      out += tree.kind == YamlNode::Kind::kMap ? Quote(key) + ":" : "-";
      out += Write(child, indent + 2);
      if (Below(8) == 0) out += "  # a comment with 'quotes\" in it\n";
    }
    return out;
  }

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::string MakeText() {
    static const char* const kPieces[] = {
        "a",  "'",    "\"",           "\\", " ",    ": ",  "#",  " #", "-", "[",
        "}",  ",",    "&x",           "*x", "!",    "\n",  "\t", "%",  "@", "\xC3\xBC",
        "''", "\\\"", "\xE2\x98\x83", "0",  "null", "\x01"};
    std::string text;
    for (uint32_t i = Below(6); i > 0; --i) text += kPieces[Below(std::size(kPieces))];
    return text;
  }

  std::string Quote(const std::string& text) {
    const bool is_plain_safe = text.find_first_of("\n\t\x01") == std::string::npos;
    std::string out;
    if (is_plain_safe && Below(2) == 0) {
      for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
      return "'" + out + "'";
    }
    for (const char c : text) {
      if (c == '\n') {
        out += "\\n";
      } else if (c == '\t') {
        out += "\\t";
      } else if (c == '\x01') {
        out += "\\x01";
      } else {
        out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
      }
    }
    return "\"" + out + "\"";
  }

  std::string Flow(const Tree& tree) {
    if (tree.kind == YamlNode::Kind::kNull) return "~";
    if (tree.kind == YamlNode::Kind::kScalar) return Quote(tree.text);
    const bool is_map = tree.kind == YamlNode::Kind::kMap;
    std::string out;
    for (const auto& [key, child] : tree.children) {
      out += (out.empty() ? "" : ", ") + (is_map ? Quote(key) + ": " : "") + Flow(child);
    }
    return is_map ? "{" + out + "}" : "[" + out + "]";
  }

  std::mt19937 random_;
};

bool IsSame(const YamlNode& node, const Tree& tree) {
  if (node.kind() != tree.kind || node.text() != tree.text) return false;
  if (tree.kind == YamlNode::Kind::kSequence) {
    if (node.items().size() != tree.children.size()) return false;
    for (size_t i = 0; i < tree.children.size(); ++i) {
      if (!IsSame(node.items()[i], tree.children[i].second)) return false;
    }
  }
  if (tree.kind == YamlNode::Kind::kMap) {
    if (node.entries().size() != tree.children.size()) return false;
    for (size_t i = 0; i < tree.children.size(); ++i) {
      if (node.entries()[i].key != tree.children[i].first) return false;
      if (!IsSame(node.entries()[i].value, tree.children[i].second)) return false;
    }
  }
  return true;
}

TEST(YamlPropertyTest, WhatIsWrittenIsReadBack) {
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    Writer writer(seed);
    const Tree tree = writer.MakeTree(0);
    const std::string text = "---" + writer.Write(tree, 0);
    const Result<YamlNode> node = ParseYaml(text, "f.yaml");
    ASSERT_TRUE(node.ok()) << "seed " << seed << ": " << node.status().ToString() << "\n" << text;
    ASSERT_TRUE(IsSame(*node, tree)) << "seed " << seed << "\n" << text;
  }
}

TEST(YamlPropertyTest, AFileThatIsCutAnywhereIsReadOrRefusedButNeverHangs) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    Writer writer(seed);
    const std::string text = "---" + writer.Write(writer.MakeTree(0), 0);
    for (size_t size = 0; size < text.size(); ++size) {
      const Result<YamlNode> node = ParseYaml(text.substr(0, size), "f.yaml");
      if (!node.ok()) {
        ASSERT_TRUE(node.status().message().starts_with("f.yaml:")) << node.status().message();
      }
    }
  }
}

}  // namespace
}  // namespace hvdray
