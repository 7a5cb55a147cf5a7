#include "base/xml.h"

#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <string>

namespace hvdray {
namespace {

using namespace std::string_literals;

/// What a reader that normalises line ends, as XML tells it to, gets for the text of the root.
std::string ReadBackText(std::string_view text) {
  XmlDocument document;
  document.Root("r").Text(text);
  pugi::xml_document reader;
  const pugi::xml_parse_result parsed = reader.load_string(
      document.ToString().c_str(), pugi::parse_default | pugi::parse_ws_pcdata_single);
  EXPECT_TRUE(parsed) << parsed.description();
  return reader.document_element().text().get();
}

std::string ReadBackAttribute(std::string_view value) {
  XmlDocument document;
  document.Root("r").Attribute("a", value);
  pugi::xml_document reader;
  const pugi::xml_parse_result parsed =
      reader.load_string(document.ToString().c_str(), pugi::parse_default);
  EXPECT_TRUE(parsed) << parsed.description();
  return reader.document_element().attribute("a").value();
}

TEST(XmlTest, WritesElementsAttributesAndTextInOrder) {
  XmlDocument document;
  XmlElement root = document.Root("testsuite");
  root.Attribute("name", "gang").Attribute("tests", int64_t{2}).Attribute("name", "job");
  root.Child("testcase").Attribute("name", "rank 0");
  XmlElement second = root.Child("testcase");
  second.Attribute("name", "rank 1").Child("failure").Text("exit ").Text("7");
  EXPECT_EQ(document.ToString(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"job\" tests=\"2\">\n"
            "  <testcase name=\"rank 0\" />\n"
            "  <testcase name=\"rank 1\">\n"
            "    <failure>exit 7</failure>\n"
            "  </testcase>\n"
            "</testsuite>\n");
}

TEST(XmlTest, MarkupInValuesIsEscaped) {
  XmlDocument document;
  document.Root("r").Attribute("a", "<\"&'>").Text("</r> & ]]> <!--");
  EXPECT_EQ(document.ToString(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<r a=\"&lt;&quot;&amp;'>\">&lt;/r&gt; &amp; ]]&gt; &lt;!--</r>\n");
}

TEST(XmlTest, ReadersGetBackWhatWasWritten) {
  for (const std::string text : {"plain", " spaces  kept ", "a\nb\n", "tab\there", "\t",
                                 "\xC3\xBC \xE2\x98\x83 \xF0\x9F\x98\x80", "&amp; &#65; <x/>",
                                 "]]>", "'\"", "\n", "\xEF\xBF\xBD"}) {
    EXPECT_EQ(ReadBackText(text), text);
    EXPECT_EQ(ReadBackAttribute(text), text);
  }
}

TEST(XmlTest, CarriageReturnsSurviveInAttributesOnly) {
  EXPECT_EQ(ReadBackAttribute("a\rb\r\n"), "a\rb\r\n");
  EXPECT_EQ(ReadBackText("a\rb\r\n"), "a\nb\n");
}

TEST(XmlTest, EachByteWithoutAPlaceInXmlIsReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> table[] = {
      {"a\0b"s, "a" + r + "b"},
      {"\x01\x08\x0b\x0c\x0e\x1f", r + r + r + r + r + r},
      {"\x1b[31mred\x1b[0m", r + "[31mred" + r + "[0m"},
      {"\xff\xfe", r + r},
      {"cut \xe2\x98", "cut " + r + r},
      {"\xed\xa0\x80", r + r + r},
      {"\xef\xbf\xbe \xef\xbf\xbf", r + " " + r},
      {"\xc0\xaf", r + r},
  };
  for (const auto& [bytes, wanted] : table) {
    EXPECT_EQ(ReadBackText(bytes), wanted);
    EXPECT_EQ(ReadBackAttribute(bytes), wanted);
  }
}

TEST(XmlTest, EveryByteGivesADocumentThatParses) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string text = ReadBackText(all);
  EXPECT_NE(text.find("ABC"), std::string::npos);
  EXPECT_EQ(text.size(), ReadBackAttribute(all).size());
}

TEST(XmlTest, LongTextIsWrittenWhole) {
  std::string text(10'000'000, 'x');
  text += "end";
  EXPECT_EQ(ReadBackText(text), text);
}

TEST(XmlTest, ADocumentCanBeMoved) {
  XmlDocument document;
  XmlElement root = document.Root("r");
  XmlDocument moved = std::move(document);
  root.Text("t");
  EXPECT_NE(moved.ToString().find("<r>t</r>"), std::string::npos);
}

TEST(XmlDeathTest, NamesThatAreNotNamesAreABug) {
  XmlDocument document;
  XmlElement root = document.Root("r");
  for (const char* name : {"", "a b", "1a", "<", "a:b", "-a"}) {
    EXPECT_DEATH(root.Child(name), "IsName") << name;
    EXPECT_DEATH(root.Attribute(name, "x"), "IsName") << name;
  }
  EXPECT_DEATH(document.Root("r"), "document_element");
}

}  // namespace
}  // namespace hvdray
