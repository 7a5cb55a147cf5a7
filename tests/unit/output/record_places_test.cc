// SPDX-License-Identifier: Apache-2.0
// Ranks of a record's bytes: valid and invalid records.
#include <gtest/gtest.h>

#include "launcher/report/stream_file.h"

namespace hvdray {
namespace {

TEST(RecordPlacesTest, BytesBetweenThoseOfRanksAreNobodys) {
  RecordPlaces places(RecordKind::kStderr, 12);
  EXPECT_EQ(places.Take(), "");
  places.Add(3, 0, 4);
  places.Add(3, 4, 6);
  places.Add(5, 6, 6);  // an end without bytes
  places.Add(5, 9, 10);
  places.Empty(5);
  places.Add(5, 10, 11);
  const Result<PlacesOfRecord> read = ParsePlaces(places.Take());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->stream, RecordKind::kStderr);
  EXPECT_EQ(read->np, 12);
  EXPECT_EQ(read->places, (std::vector<RecordPlace>{{3, 6, false},
                                                    {RecordPlace::kNobody, 3, false},
                                                    {5, 1, false},
                                                    {5, 0, true},
                                                    {5, 1, false}}));
}

TEST(RecordPlacesTest, EachRecordCountsFromItsOwnFirstByte) {
  RecordPlaces places(RecordKind::kStdout, 1);
  places.Add(0, 7, 9);
  EXPECT_NE(places.Take(), "");
  EXPECT_EQ(places.Take(), "");
  places.Add(0, 0, 2);
  EXPECT_EQ(ParsePlaces(places.Take())->places, (std::vector<RecordPlace>{{0, 2, false}}));
}

TEST(RecordPlacesTest, TheFormatIsLittleEndian) {
  EXPECT_EQ(FormatPlaces({RecordKind::kStdout, 2, {{1, 0x0203, false}, {0, 0, true}}}),
            std::string("\1\2\0\0\0"
                        "\1\0\0\0\3\2\0\0"
                        "\0\0\0\0\xff\xff\xff\xff",
                        21));
}

TEST(RecordPlacesTest, WhatNoDriverWritesIsRefused) {
  const std::string whole = FormatPlaces({RecordKind::kStdout, 2, {{1, 9, false}}});
  ASSERT_TRUE(ParsePlaces(whole).ok());
  std::string no_stream = whole;
  no_stream[0] = 3;
  for (const std::string& text :
       {std::string(), whole.substr(0, 4), whole + "x", no_stream,
        FormatPlaces({RecordKind::kStdout, 0, {}}), FormatPlaces({RecordKind::kStdout, 65537, {}}),
        FormatPlaces({RecordKind::kStdout, 2, {{65536, 1, false}}}),
        FormatPlaces({RecordKind::kStdout, 2, {{RecordPlace::kNobody, 0, true}}})}) {
    EXPECT_EQ(ParsePlaces(text).status().code(), ErrorCode::kProtocolError) << text.size();
  }
}

}  // namespace
}  // namespace hvdray
