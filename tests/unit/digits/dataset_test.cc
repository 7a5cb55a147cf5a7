// SPDX-License-Identifier: Apache-2.0
#include "digits/dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "base/fd.h"

namespace hvdray::digits {
namespace {

std::string Line(int pixel, int label) {
  std::string line;
  for (size_t i = 0; i < kPixels; ++i) line += std::to_string(pixel) + ",";
  return line + std::to_string(label) + "\n";
}

TEST(DatasetTest, ReadsPixelsScaledToOneAndLabels) {
  const Result<Dataset> data = ParseDigits(Line(16, 7) + Line(8, 0), "d.csv");
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  ASSERT_EQ(data->size(), 2U);
  EXPECT_EQ(data->labels, (std::vector<int>{7, 0}));
  EXPECT_FLOAT_EQ(data->image(0)[63], 1.0F);
  EXPECT_FLOAT_EQ(data->image(1)[0], 0.5F);
}

TEST(DatasetTest, RefusesBadLinesWithTheirNumber) {
  const std::string good = Line(1, 1);
  for (const std::string& bad :
       {Line(17, 1), Line(1, 10), Line(-1, 1), std::string("1,2,3\n"), std::string("x\n"),
        Line(1, 1).substr(0, 100), "0," + Line(1, 1)}) {
    const Result<Dataset> data = ParseDigits(good + bad, "d.csv");
    ASSERT_FALSE(data.ok()) << bad;
    EXPECT_EQ(data.status().code(), ErrorCode::kSpecInvalid);
    EXPECT_EQ(data.status().message().rfind("d.csv:2:", 0), 0U) << data.status().message();
  }
  EXPECT_FALSE(ParseDigits("", "d.csv").ok());
}

TEST(DatasetTest, TheShippedFileHasAllItsImages) {
  const Result<std::string> text = ReadFile("examples/digits/digits.csv");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const Result<Dataset> data = ParseDigits(*text, "digits.csv");
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(data->size(), 1797U);
  const Split split = SplitDigits(*data);
  EXPECT_EQ(split.test.size(), 360U);
  EXPECT_EQ(split.train.size(), 1437U);
}

TEST(DatasetTest, ShardsTakeEveryImageOnce) {
  Dataset all;
  for (int i = 0; i < 10; ++i) {
    all.images.insert(all.images.end(), kPixels, static_cast<float>(i));
    all.labels.push_back(i);
  }
  std::multiset<int> seen;
  for (int rank = 0; rank < 3; ++rank) {
    const Dataset shard = Shard(all, rank, 3);
    for (size_t i = 0; i < shard.size(); ++i) {
      EXPECT_EQ(shard.image(i)[0], static_cast<float>(shard.labels[i]));
      seen.insert(shard.labels[i]);
    }
  }
  EXPECT_EQ(seen, (std::multiset<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace hvdray::digits
