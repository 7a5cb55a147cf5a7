// SPDX-License-Identifier: Apache-2.0
#include "base/json_fields.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/base.txt");

constexpr auto kKeeps = FieldReader::Missing::kKeepsDefault;
constexpr auto kStrict = FieldReader::Missing::kIsFault;
constexpr std::string_view kColors[] = {"red", "green"};
enum class Color : uint8_t { kRed, kGreen };

struct Wheel {
  int size = 0;
  std::string name;
  bool operator==(const Wheel&) const = default;
};

struct Car {
  int64_t number = -1;
  uint64_t word = 0;
  bool is_new = false;
  double price = 0;
  std::string name;
  std::string bytes;
  Duration age{};
  Color color = Color::kRed;
  Wheel spare;
  std::vector<Wheel> wheels;
  std::vector<int> years;
  std::vector<std::pair<int, int>> pairs;
  std::map<std::string, double> parts;
  std::optional<int> doors;
  int extra = 0;
  bool operator==(const Car&) const = default;
};

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Wheel> wheel) {
  io.Int("size", wheel.size, {0, 30});
  io.Text("name", wheel.name, {0, 5});
}

template <typename Io>
void Fields(Io& io, FieldsOf<Io, Car> car) {
  const auto wheel = [](auto& part, auto& value) { Fields(part, value); };
  io.Int("number", car.number, kAnyOf<int64_t>);
  io.Word("word", car.word);
  io.Flag("is_new", car.is_new);
  io.Number("price", car.price);
  io.Text("name", car.name, {0, 100});
  io.Bytes("bytes", car.bytes);
  io.Time("age", car.age, {0, 1000});
  io.Choice("color", car.color, kColors);
  io.Object("spare", car.spare, wheel);
  io.List("wheels", car.wheels, 4, wheel);
  io.List("years", car.years, kAnyCount, [](auto& item, auto& year) {
    item.Int({}, year, {1, 9});
  });
  io.List("pairs", car.pairs, kAnyCount, [](auto& item, auto& pair) {
    item.Exactly(2);
    item.Int(0, pair.first, kAnyOf<int>);
    item.Int(1, pair.second, kAnyOf<int>);
  });
  io.Table("parts", car.parts, [](auto& item, auto& part) { item.Number({}, part); });
  io.Maybe("doors", car.doors, [](auto& item, auto& doors) { item.Int({}, doors, {0, 5}); });
  if (io.Has("extra", car.extra != 0)) io.Int("extra", car.extra, kAnyOf<int>);
  io.Require("name", car.name != "none", "must be a name");
}

Car FullCar() {
  return {.number = INT64_MIN,
          .word = UINT64_MAX,
          .is_new = true,
          .price = 0.5,
          .name = "a \"b\" \\ \n \x01 \xc3\xbc",
          .bytes = std::string("\xff\0x", 3),
          .age = Duration(1000),
          .color = Color::kGreen,
          .spare = {3, "s"},
          .wheels = {{1, "a"}, {2, ""}},
          .years = {1, 9},
          .pairs = {{1, -2}},
          .parts = {{"a \"", 1}, {"b", 2.25}},
          .doors = 5,
          .extra = 7};
}

std::string Written(const Car& car, FieldWriter::Escape escape = {}) {
  return WriteFields([&car](FieldWriter& io) { Fields(io, car); }, escape);
}

Status ToStatus(const char* text, FieldReader::Missing missing = kKeeps) {
  Car car;
  return ReadFields(ParseJson(text).value(), missing, [&car](FieldReader& io) { Fields(io, car); });
}

TEST(JsonFieldsTest, EveryKindOfFieldComesBack) {
  for (const Car& car : {FullCar(), Car()}) {
    for (const auto escape : {FieldWriter::Escape::kControls, FieldWriter::Escape::kNonAscii}) {
      const Json json = ParseJson(Written(car, escape)).value();
      Car back;
      const Status status =
          ReadFields(json, kStrict, [&back](FieldReader& io) { Fields(io, back); });
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(back, car);
      EXPECT_EQ(DumpJson(json), Written(car)) << "as the JSON library writes it";
    }
  }
}

TEST(JsonFieldsTest, FieldsAreWrittenInTheirOrderAndOptionalOnesWhenTheyAreSet) {
  EXPECT_EQ(Written(Car()),
            R"({"number":-1,"word":0,"is_new":false,"price":0.0,"name":"","bytes":"","age":0,)"
            R"("color":"red","spare":{"size":0,"name":""},"wheels":[],"years":[],"pairs":[],)"
            R"("parts":{},"doors":null})");
  EXPECT_NE(Written(FullCar()).find(R"("doors":5,"extra":7})"), std::string::npos);
}

TEST(JsonFieldsTest, TextIsWrittenAsValidJsonWhateverItHolds) {
  const auto text = [](const std::string& value, FieldWriter::Escape escape) {
    return WriteFields([&value](FieldWriter& io) { io.Text("t", value); }, escape);
  };
  using enum FieldWriter::Escape;
  EXPECT_EQ(text("a\xff", kControls), "{\"t\":\"a\xef\xbf\xbd\"}");
  EXPECT_EQ(text("\xc3\xbc\x7f", kControls), "{\"t\":\"\xc3\xbc\x7f\"}");
  EXPECT_EQ(text("\xc3\xbc\x7f", kNonAscii), R"({"t":"\u00fc\u007f"})");
  for (int c = 0; c < 128; ++c) {
    const std::string one(1, static_cast<char>(c));
    EXPECT_EQ(text(one, kControls), DumpJson(Json{{"t", one}})) << c;
  }
}

TEST(JsonFieldsTest, AWriterClampsTimes) {
  Car car;
  car.age = Duration(-1);
  EXPECT_NE(Written(car).find(R"("age":0)"), std::string::npos);
  car.age = Duration(1001);
  EXPECT_NE(Written(car).find(R"("age":1000)"), std::string::npos);
}

TEST(JsonFieldsTest, MissingKeysKeepDefaultsOrAreFaults) {
  EXPECT_TRUE(ToStatus("{}").ok());
  EXPECT_TRUE(ToStatus(R"({"unknown":{"a":[1]}})").ok());
  ExpectFault("{}", ToStatus("{}", kStrict), ErrorCode::kProtocolError, "number");
  const Json json = ParseJson(R"({"a":{"b":{}}})").value();
  const auto fault_of = [&json](bool keeps) {
    int value = 0;
    return ReadFields(json, kStrict,
                      [&](FieldReader& io) {
                        io.Object("a", value, [keeps](FieldReader& a, int& number) {
                          if (keeps) a.KeepDefaults();
                          a.Int("c", number, {0, 1});
                          a.Object("b", number, [](FieldReader& b, int& inner) {
                            b.Int("d", inner, {0, 1});
                          });
                        });
                      })
        .message();
  };
  EXPECT_EQ(fault_of(false), "a.c is missing");
  EXPECT_EQ(fault_of(true), "a.b.d is missing") << "of that object alone";
}

TEST(JsonFieldsTest, AFaultIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> rows[] = {
      {"[]", ""},
      {"null", ""},
      {R"({"number":1.0})", "number"},
      {R"({"number":"1"})", "number"},
      {R"({"number":null})", "number"},
      {R"({"number":1e99})", "number"},
      {R"({"number":18446744073709551615})", "number"},
      {R"({"word":-1})", "word"},
      {R"({"word":1.5})", "word"},
      {R"({"is_new":1})", "is_new"},
      {R"({"price":"1"})", "price"},
      {R"({"name":7})", "name"},
      {R"({"name":"none"})", "name"},
      {R"({"bytes":7})", "bytes"},
      {R"({"bytes":{}})", "bytes"},
      {R"({"bytes":{"base64":"?"}})", "bytes"},
      {R"({"age":1001})", "age"},
      {R"({"color":"blue"})", "color"},
      {R"({"color":0})", "color"},
      {R"({"spare":[]})", "spare"},
      {R"({"spare":null})", "spare"},
      {R"({"spare":{"size":31}})", "spare.size"},
      {R"({"spare":{"size":-1}})", "spare.size"},
      {R"({"spare":{"name":"123456"}})", "spare.name"},
      {R"({"wheels":{}})", "wheels"},
      {R"({"wheels":[{},1]})", "wheels[1]"},
      {R"({"wheels":[{},{"size":true}]})", "wheels[1].size"},
      {R"({"wheels":[{},{},{},{},{}]})", "wheels"},
      {R"({"years":[1,10]})", "years[1]"},
      {R"({"pairs":[[1]]})", "pairs[0]"},
      {R"({"pairs":[[1,2,3]]})", "pairs[0]"},
      {R"({"pairs":[[1,"2"]]})", "pairs[0][1]"},
      {R"({"parts":[]})", "parts"},
      {R"({"parts":{"a":"1"}})", "parts.a"},
      {R"({"doors":6})", "doors"},
      {R"({"spare":{"size":31},"number":"1"})", "number"},
  };
  for (const auto& [text, place] : rows) {
    ExpectFault(text, ToStatus(text), ErrorCode::kProtocolError, place);
  }
}

TEST(JsonFieldsTest, ElementsOfAListAreNeededUnlessTheyAreAskedFor) {
  const auto fault_of = [](const char* text) {
    const Json json = ParseJson(text).value();
    std::vector<std::pair<int, int>> list;
    return ReadFields(json, kKeeps,
                      [&list](FieldReader& io) {
                        io.List("l", list, 2, [](FieldReader& item, auto& pair) {
                          item.Int(0, pair.first, {0, 9});
                          if (item.Has(1)) item.Int(1, pair.second, {0, 9});
                        });
                      })
        .message();
  };
  EXPECT_EQ(fault_of(R"({"l":[[1],[1,2,"later"]]})"), "");
  EXPECT_EQ(fault_of(R"({"l":[[]]})"), "l[0][0] is missing");
  EXPECT_EQ(fault_of(R"({"l":[{}]})"), "l[0] must be a list");
}

TEST(JsonFieldsTest, TextsForPeopleAreCleaned) {
  const Json json = {{"t", "red \x1b[31m\nline"}};
  std::string text;
  ASSERT_TRUE(ReadFields(json, kKeeps, [&text](FieldReader& io) { io.Shown("t", text); }).ok());
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(JsonFieldsTest, NothingIsReadAfterAFault) {
  const Json json = {{"a", "x"}, {"b", 2}};
  int a = 1;
  int b = 1;
  const Status status = ReadFields(json, kKeeps, [&](FieldReader& io) {
    io.Int("a", a, {0, 9});
    io.Int("b", b, {0, 9});
  });
  EXPECT_EQ(status.message(), "a must be a whole number");
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
}

}  // namespace
}  // namespace hvdray
