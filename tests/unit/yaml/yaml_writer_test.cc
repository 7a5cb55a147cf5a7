// SPDX-License-Identifier: Apache-2.0
// Trees written as YAML and as JSON: readable, and read back the same, whatever the texts look
// like.
#include "base/yaml_writer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hvdray {
namespace {

YamlNode Parsed(const std::string& text) {
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  EXPECT_TRUE(node.ok()) << node.status().ToString() << "\n" << text;
  return node.ok() ? *node : *ParseYaml("", "f.yaml");
}

std::string Rewritten(const std::string& text) { return YamlText(Parsed(text)); }

/// The text of a string in a list, as it is written.
std::string Written(const std::string& text) {
  const YamlNode at = Parsed("a");
  const std::string all =
      YamlText(YamlNode::Sequence({YamlNode::Scalar(text, /*is_quoted=*/true, at)}, at));
  EXPECT_EQ(all.substr(0, 2), "- ");
  return all.substr(2, all.size() - 3);
}

TEST(YamlWriterTest, MapsAndListsAreBlocks) {
  EXPECT_EQ(Rewritten("{a: {b: [1, {c: d, e: [f]}, [g, h]]}, i: [], j: {}, k: }"),
            "a:\n"
            "  b:\n"
            "    - 1\n"
            "    - c: d\n"
            "      e:\n"
            "        - f\n"
            "    - - g\n"
            "      - h\n"
            "i: []\n"
            "j: {}\n"
            "k: null\n");
  EXPECT_EQ(Rewritten("word"), "word\n");
  EXPECT_EQ(Rewritten(""), "null\n");
}

TEST(YamlWriterTest, WordsAndCommandsNeedNoQuotes) {
  for (const char* text :
       {"m5.large", "~/.ssh/key.pem", "ulimit -c unlimited; ray start --head --port=6379",
        "--ulimit nofile=65536:65536", "pip install 'ray[default]==2.60.0'", "a#b",
        "ssh -W %h:%p j", "nothing", "yesterday", "x: y"}) {
    const bool is_pair = std::string(text) == "x: y";
    EXPECT_EQ(Written(text), is_pair ? "'x: y'" : text);
  }
}

TEST(YamlWriterTest, StringsThatLookLikeSomethingElseAreQuoted) {
  for (const char* text :
       {"",      "true", "no",  "Off",  "null", "~",    "12",         "-1",       "+1",
        "1.5",   ".5",   "1e3", "0x1f", "0o7",  "1:30", "2024-01-01", "10.0.0.1", ".inf",
        "-.INF", ".nan", "=",   "<<",   "y",    "N",    "---"}) {
    EXPECT_EQ(Written(text), "'" + std::string(text) + "'");
  }
}

TEST(YamlWriterTest, NumbersAndBooleansStayWhatTheyWere) {
  EXPECT_EQ(Rewritten("[12, '12', yes, \"yes\", 0.5, 10.0.0.1]"),
            "- 12\n- '12'\n- yes\n- 'yes'\n- 0.5\n- 10.0.0.1\n");
}

TEST(YamlWriterTest, TextThatWouldBeReadOtherwiseIsQuoted) {
  EXPECT_EQ(Written(" a"), "' a'");
  EXPECT_EQ(Written("a "), "'a '");
  EXPECT_EQ(Written("a # b"), "'a # b'");
  EXPECT_EQ(Written("a:"), "'a:'");
  EXPECT_EQ(Written("*a"), "'*a'");
  EXPECT_EQ(Written("{a}"), "'{a}'");
  EXPECT_EQ(Written("it's: here"), "'it''s: here'");
  EXPECT_EQ(Written("a\tb\"\\\x01"), R"("a\tb\"\\\x01")");
  EXPECT_EQ(Written("\xC2\x85\xE2\x80\xA8\xEF\xBB\xBF\xC3\xBC"),
            "\"\\u0085\\u2028\\ufeff\xC3\xBC\"");
}

TEST(YamlWriterTest, WhatReordersTextOnATerminalIsEscapedInYamlAndJson) {
  const std::string marks[] = {"\\u061c", "\\u200e", "\\u200f", "\\u202a", "\\u202e",
                               "\\u2066", "\\u2069", "\\u0085", "\\u009b"};
  for (const std::string& mark : marks) {
    const YamlNode plain = Parsed("{\"a" + mark + "\": \"x" + mark + "y\"}");
    const std::string text = YamlText(plain);
    EXPECT_EQ(text, "\"a" + mark + "\": \"x" + mark + "y\"\n");
    EXPECT_EQ(YamlText(Parsed(text)), text);
    EXPECT_NE(DumpJson(YamlJson(plain), 2).find("\"a" + mark + "\": \"x" + mark + "y\""),
              std::string::npos)
        << DumpJson(YamlJson(plain), 2);
    const YamlNode lines = Parsed("a: \"one" + mark + "\\ntwo\\n\"");
    EXPECT_NE(YamlText(lines).find(mark), std::string::npos) << YamlText(lines);
  }
}

TEST(YamlWriterTest, ShortEscapesAreWholeCharacters) {
  EXPECT_EQ(Parsed(R"("a\Nb\_c\L")").text(),
            "a\xC2\x85"
            "b\xC2\xA0"
            "c\xE2\x80\xA8");
  EXPECT_EQ(Rewritten(R"("a\Nb\_c\L")"),
            "\"a\\u0085b\xC2\xA0"
            "c\\u2028\"\n");
}

TEST(YamlWriterTest, LinesBecomeALiteralBlock) {
  EXPECT_EQ(Rewritten("a: \"for i in 1 2; do\\n  echo $i\\n\\ndone\"\nb: \"x\\ny\\n\"\n"),
            "a: |-\n"
            "  for i in 1 2; do\n"
            "    echo $i\n"
            "\n"
            "  done\n"
            "b: |\n"
            "  x\n"
            "  y\n");
  EXPECT_EQ(Written(" x\ny"), R"(" x\ny")") << "a block that begins with a blank needs more";
  EXPECT_EQ(Written("x\n\n"), R"("x\n\n")");
  EXPECT_EQ(Written("x\n  \ny"), R"("x\n  \ny")");
}

TEST(YamlWriterTest, KeysAreStrings) {
  EXPECT_EQ(Rewritten("{'on': 1, \"a: b\": 2, '<<': 3, 8: 4}"),
            "'on': 1\n'a: b': 2\n'<<': 3\n'8': 4\n");
  const std::string name(2000, 'n');
  EXPECT_EQ(Rewritten("? " + name + "\n: [a]\n"), "? " + name + "\n:\n  - a\n");
}

TEST(YamlWriterTest, AliasesAndMergesAreWrittenOut) {
  EXPECT_EQ(Rewritten("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n"),
            "a:\n  b: 1\nc:\n  b: 1\nd:\n  b: 1\n  e: 2\n");
}

TEST(YamlWriterTest, JsonHasTheTypesOfYaml) {
  EXPECT_EQ(DumpJson(YamlJson(Parsed("{a: yes, b: 'yes', c: 3, d: 0.5, e: ~, f: [], g: {}, "
                                     "h: 10.0.0.1, i: 9223372036854775807, j: .inf}"))),
            R"({"a":true,"b":"yes","c":3,"d":0.5,"e":null,"f":[],"g":{},"h":"10.0.0.1",)"
            R"("i":9223372036854775807,"j":".inf"})");
}

TEST(YamlWriterTest, JsonHasTheTypesThatPyYamlGives) {
  // cluster_config_test.py compares random scalars with PyYAML itself.
  EXPECT_EQ(DumpJson(YamlJson(Parsed("[0123, 0x8C, 1_000, 12:30, 1:30.5, 1e3, 123e45, 08, 1.0e+3, "
                                     "2026-11-28, y, on]"))),
            R"([83,140,1000,750,90.5,"1e3","123e45","08",1000.0,"2026-11-28","y",true])");
}

bool IsSame(const YamlNode& a, const YamlNode& b) {
  if (a.kind() != b.kind() || a.text() != b.text()) return false;
  if (a.items().size() != b.items().size() || a.entries().size() != b.entries().size())
    return false;
  for (size_t i = 0; i < a.items().size(); ++i) {
    if (!IsSame(a.items()[i], b.items()[i])) return false;
  }
  for (size_t i = 0; i < a.entries().size(); ++i) {
    if (a.entries()[i].key != b.entries()[i].key) return false;
    if (!IsSame(a.entries()[i].value, b.entries()[i].value)) return false;
  }
  return true;
}

class RandomTree {
 public:
  explicit RandomTree(uint32_t seed) : random_(seed), at_(Parsed("a")) {}

  YamlNode Make(int depth) {
    const uint32_t pick = depth > 4 ? 0 : Below(3);
    if (pick == 0) return YamlNode::Scalar(Text(), /*is_quoted=*/true, at_);
    std::vector<YamlNode> items;
    std::vector<YamlNode::Entry> entries;
    for (uint32_t i = Below(4); i > 0; --i) {
      if (pick == 1) {
        items.push_back(Make(depth + 1));
      } else {
        entries.push_back({Text() + std::to_string(i), "", Make(depth + 1)});
      }
    }
    return pick == 1 ? YamlNode::Sequence(std::move(items), at_)
                     : YamlNode::Map(std::move(entries), at_);
  }

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::string Text() {
    static const char* const kPieces[] = {
        "a",        "'",    "\"", "\\", " ", ": ",   "#",    " #",   "-",   "[",
        "}",        ",",    "&",  "*",  "!", "\n",   "\t",   "%",    "@",   "\xC3\xBC",
        "? ",       "|",    ">",  "0",  "1", "null", "true", "\x01", "...", "\xE2\x80\xA8",
        "\xC2\x85", "\n  ", "---"};
    std::string text;
    for (uint32_t i = Below(6); i > 0; --i) text += kPieces[Below(std::size(kPieces))];
    return text;
  }

  std::mt19937 random_;
  YamlNode at_;
};

TEST(YamlWriterPropertyTest, WhatIsWrittenIsReadBack) {
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    const YamlNode tree = RandomTree(seed).Make(0);
    const std::string text = YamlText(tree);
    const Result<YamlNode> read = ParseYaml(text, "f.yaml");
    ASSERT_TRUE(read.ok()) << "seed " << seed << ": " << read.status().ToString() << "\n" << text;
    ASSERT_TRUE(IsSame(tree, *read)) << "seed " << seed << "\n" << text;
    ASSERT_EQ(YamlText(*read), text) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hvdray
