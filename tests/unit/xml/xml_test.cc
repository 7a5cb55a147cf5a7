// SPDX-License-Identifier: Apache-2.0
#include "base/xml.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

std::string Nested(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += "<a>";
  for (int i = 0; i < depth; ++i) text += "</a>";
  return text;
}

TEST(XmlTest, ElementsAreFoundByPathAndTheirTextIsTrimmed) {
  const auto root = ParseXml(
      "<?xml version=\"1.0\"?><r xmlns=\"http://x\"><list> <item><n> a&amp;b </n></item>"
      "<item><n>c</n></item><!-- no --></list><n><![CDATA[<raw>]]></n></r>");
  ASSERT_TRUE(root.ok()) << root.status().ToString();
  EXPECT_EQ(root->name, "r");
  EXPECT_EQ(root->TextAt("n"), "<raw>");
  EXPECT_EQ(root->TextAt("list/item/n"), "a&b");
  EXPECT_EQ(root->TextAt("list/nothing/n"), "");
  ASSERT_EQ(root->ItemsAt("list").size(), 2U);
  EXPECT_EQ(root->ItemsAt("list")[1]->TextAt("n"), "c");
  EXPECT_TRUE(root->ItemsAt("nothing").empty());
}

TEST(XmlTest, WhatIsWrittenIsRead) {
  XmlElement root{.name = "r", .attributes = {{"a", "<\"&\x01"}}};
  root.children.push_back({.name = "t", .text = "line\n&\xFF"});
  const std::string text = WriteXml(root);
  EXPECT_EQ(text,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<r a=\"&lt;&quot;&amp;\xEF\xBF\xBD\">\n"
            "  <t>line\n&amp;\xEF\xBF\xBD</t>\n</r>\n");
  const auto again = ParseXml(text);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->attributes[0].second, "<\"&\xEF\xBF\xBD");
  EXPECT_EQ(again->TextAt("t"), "line\n&\xEF\xBF\xBD");
}

TEST(XmlTest, BadSyntaxIsRefusedWithItsPlace) {
  for (const char* text : {"", "plain", "<a>", "<a></b>", "<a", "{}"}) {
    const auto root = ParseXml(text);
    ASSERT_FALSE(root.ok()) << text;
    EXPECT_EQ(root.status().code(), ErrorCode::kProtocolError);
    EXPECT_NE(root.status().message().find("byte"), std::string::npos) << text;
  }
}

TEST(XmlTest, DocumentTypesAreRefusedSoThatNoEntityIsExpanded) {
  const auto root = ParseXml("<!DOCTYPE r [<!ENTITY a \"b\">]><r>&a;</r>");
  ASSERT_FALSE(root.ok());
  EXPECT_EQ(root.status().message(), "XML with a document type");
}

TEST(XmlTest, DepthSizeAndNumberAreLimited) {
  EXPECT_TRUE(ParseXml(Nested(64)).ok());
  EXPECT_FALSE(ParseXml(Nested(65)).ok());
  EXPECT_FALSE(ParseXml(Nested(100'000)).ok());
  EXPECT_TRUE(ParseXml("<a></a>", 7).ok());
  EXPECT_FALSE(ParseXml("<a></a>", 6).ok());
  std::string wide = "<r>";
  for (int i = 0; i < 500'000; ++i) wide += "<a/>";
  EXPECT_FALSE(ParseXml(wide + "</r>").ok());
}

}  // namespace
}  // namespace hvdray
