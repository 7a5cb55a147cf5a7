// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/yaml.h"

namespace hvdray {
namespace {

std::string ErrorOf(std::string_view text) {
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  if (node.ok()) return "no error";
  EXPECT_EQ(node.status().code(), ErrorCode::kSpecInvalid);
  return node.status().message();
}

std::string HintOf(std::string_view text) {
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  return node.ok() ? "no error" : node.status().hint();
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
    EXPECT_EQ(ErrorOf(text), "f.yaml:4:1: end of sequence flow not found") << text;
  }
  EXPECT_EQ(Parsed("a: 1\r\nb: x\r\n").Find("b")->Where(), "f.yaml:2:4");
  EXPECT_EQ(Parsed("a: 1\r\nb: x\r\n").Find("b")->text(), "x");
}

TEST(YamlParseTest, DuplicateKeysNameBothPlaces) {
  EXPECT_EQ(ErrorOf("np: 1\nhosts: a\nnp: 2\n"),
            "f.yaml:3:1: duplicate key np, first at f.yaml:1:1");
  EXPECT_EQ(ErrorOf("{a: {b: 1, c: 2, 'b': 3}}"),
            "f.yaml:1:18: duplicate key b, first at f.yaml:1:6");
  EXPECT_EQ(ErrorOf("<<: {a: 1}\n<<: {b: 1}\n"),
            "f.yaml:2:1: duplicate key <<, first at f.yaml:1:1");
}

TEST(YamlParseTest, KeysMustBeScalars) {
  EXPECT_EQ(ErrorOf("? [1, 2]\n: x\n"), "f.yaml:1:3: a key must be a scalar");
  EXPECT_EQ(ErrorOf("? {a: b}\n: x\n"), "f.yaml:1:3: a key must be a scalar");
  EXPECT_EQ(ErrorOf("a: &l [1]\n*l : x\n"), "f.yaml:2:1: a key must be a scalar");
  EXPECT_EQ(ErrorOf(": x\n"), "f.yaml:1:1: a key is missing");
  EXPECT_EQ(ErrorOf("a: 1\n~: x\n"), "f.yaml:2:1: a key is missing");
  EXPECT_EQ(Shape(Parsed("a: &k key\n*k : x\n'null': y\n")), "{a: key, key: x, null: y}");
}

TEST(YamlParseTest, RefusesASecondDocument) {
  EXPECT_EQ(ErrorOf("a: 1\n---\nb: 2\n"), "f.yaml:2:1: a second document starts here");
  EXPECT_EQ(ErrorOf("- a\nb: 1\n"), "f.yaml:2:1: a second document starts here");
  EXPECT_EQ(Shape(Parsed("---\na: 1\n...\n")), "{a: 1}");
}

TEST(YamlParseTest, SyntaxErrorsNameTheLineAndOftenAHint) {
  EXPECT_EQ(ErrorOf("a: 1\nb: 'x"), "f.yaml:2:6: illegal EOF in scalar");
  EXPECT_EQ(ErrorOf("a: b: c\n"), "f.yaml:1:5: illegal map value");
  EXPECT_EQ(HintOf("a: b: c\n"), "quote a value that contains ': ', and check the indentation");
  EXPECT_EQ(ErrorOf("a: 1\n]\n"), "f.yaml:2:1: illegal flow end");
  EXPECT_EQ(ErrorOf("a: @x\n"), "f.yaml:1:4: unknown token");
  EXPECT_EQ(HintOf("a: @x\n"), "quote a value that starts with @, ` or %");
  EXPECT_EQ(ErrorOf("a: *nobody\n"), "f.yaml:1:4: the referenced anchor is not defined");
  EXPECT_EQ(ErrorOf("%YAML 3.0\n---\na: 1\n"), "f.yaml:1:1: YAML major version too large");
  EXPECT_EQ(ErrorOf("a: \"\\ud800\"\n"), "f.yaml:1:11: invalid unicode: 55296");
}

TEST(YamlParseTest, QuotesThatTheFilesEndCutsOffAreRefused) {
  for (const char* value : {"'x\n", "\"x\n", "'it''s\n", "\"\\\"\n", "'\n", "&a 'x\n",
                            "!!str  \"x\n", "&a !!str 'x\n", "\"x\\\\\\\"\n", "'x\n  y ''\n"}) {
    const std::string error = ErrorOf(std::string("a: 1\nb: ") + value);
    EXPECT_EQ(error, "f.yaml:2:4: this quote is never closed") << value;
  }
  EXPECT_EQ(
      Shape(Parsed("[\"x\\\\\", 'it''s', '', \"\", \"\\\"\", &a 'a', !!str 'b', \"l1\n  l2\"]\n")),
      "[\"x\\\", \"it's\", \"\", \"\", \"\"\", \"a\", \"b\", \"l1 l2\"]");
  EXPECT_EQ(Shape(Parsed("a: |\n  'x\nb: it's\n")), "{a: \"'x\n\", b: it's}");
}

TEST(YamlParseTest, TabsAsIndentationAreNamedAsSuch) {
  for (const char* text : {"a:\n\tb: 1\n", "\ta: 1\n", "a:\n  b: 1\n\tc: 2\n", "a:\n  \tb: 1\n"}) {
    EXPECT_NE(ErrorOf(text), "no error") << text;
    EXPECT_EQ(HintOf(text), "indent with spaces, not tabs") << text;
  }
  EXPECT_EQ(Shape(Parsed("a:\t1\nb: [1,\t2]\n")), "{a: 1, b: [1, 2]}") << "tabs elsewhere are fine";
}

TEST(YamlParseTest, TagsOfTheCoreSchemaWorkAndOthersAreRefused) {
  EXPECT_EQ(Shape(Parsed("[!!str 3, !!int '4', !!seq [a], ! x]")), "[\"3\", 4, [a], \"x\"]");
  EXPECT_EQ(ErrorOf("a: !python/object x\n"),
            "f.yaml:1:4: the tag !python/object is not supported");
  EXPECT_EQ(ErrorOf("a: !mine [1]\n"), "f.yaml:1:4: the tag !mine is not supported");
  EXPECT_EQ(ErrorOf("!mine {a: 1}\n"), "f.yaml:1:1: the tag !mine is not supported");
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
  EXPECT_EQ(ErrorOf("<<: 3\n"), "f.yaml:1:5: << takes a map or a list of maps");
  EXPECT_EQ(ErrorOf("<<: [{a: 1}, 2]\n"), "f.yaml:1:5: << takes a map or a list of maps");
}

TEST(YamlParseTest, LoadReadsAFileAndSaysWhyItCannot) {
  char path[] = "/tmp/hvdray_yaml_XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "np: [\n", 6), 6);
  ::close(fd);
  const Result<YamlNode> broken = LoadYaml(path);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().message(), std::string(path) + ":2:1: end of sequence flow not found");
  ::unlink(path);
  EXPECT_EQ(LoadYaml(path).status().code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(LoadYaml("/").status().code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(LoadYaml("/dev/zero").status().code(), ErrorCode::kFileUnreadable);
}

}  // namespace
}  // namespace hvdray
