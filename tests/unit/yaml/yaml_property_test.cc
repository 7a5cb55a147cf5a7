// SPDX-License-Identifier: Apache-2.0
// Random trees, written in random styles by a writer of the test's own, read back as they were.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/yaml.h"

namespace hvdray {
namespace {

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
