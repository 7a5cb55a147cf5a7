// SPDX-License-Identifier: Apache-2.0
// What the messages of --sync must not be able to say.
#include <gtest/gtest.h>

#include "tests/unit/wire/sample_messages.h"
#include "wire/message_codec.h"

namespace hvdray::wire {
namespace {

Result<Message> Decode(MessageType type, ByteView json, ByteView raw = {}, uint16_t version = 1) {
  std::string body;
  PutU32(body, static_cast<uint32_t>(json.size()));
  body.append(json).append(raw);
  return DecodeMessage(
      {version, static_cast<uint16_t>(type), static_cast<uint32_t>(body.size()), 1}, body);
}

bool IsRefused(MessageType type, ByteView json, ByteView raw = {}) {
  const Result<Message> message = Decode(type, json, raw);
  return !message.ok() && message.status().code() == ErrorCode::kProtocolError &&
         message.status().message().starts_with(Name(type));
}

DirectoryList ListOf(DirectoryEntry entry) {
  DirectoryList list;
  list.entries.push_back(std::move(entry));
  return list;
}

/// One entry as it would lie on the wire, whatever it says.
std::string RawEntry(const DirectoryEntry& entry) {
  std::string raw;
  raw += static_cast<char>(entry.kind);
  raw += '\0';
  PutU16(raw, entry.mode);
  PutU32(raw, entry.mtime_ns);
  PutU32(raw, static_cast<uint32_t>(entry.size));
  PutU32(raw, static_cast<uint32_t>(entry.size >> 32));
  PutU32(raw, static_cast<uint32_t>(entry.mtime_s));
  PutU32(raw, static_cast<uint32_t>(static_cast<uint64_t>(entry.mtime_s) >> 32));
  PutU16(raw, static_cast<uint16_t>(entry.path.size()));
  PutU16(raw, static_cast<uint16_t>(entry.link.size()));
  return raw + entry.path + entry.link;
}

TEST(DirectoryCodecTest, PlainPathsAreTheOnlyOnes) {
  for (const char* path : {"a", "a/b", ".a", "a..", "...", "a b/\xff", "-"}) {
    EXPECT_TRUE(IsPlainPath(path)) << path;
  }
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("."), std::string(".."), std::string("a/../b"), std::string("a/."),
        std::string("../a"), std::string("a\0b", 3), std::string(4096, 'a')}) {
    EXPECT_FALSE(IsPlainPath(path)) << path;
  }
}

TEST(DirectoryCodecTest, EntryThatIsNotAsAllowedIsNeitherReadNorWritten) {
  const DirectoryEntry good{DirectoryEntryKind::kFile, 0644, 1, 2, 3, "a", ""};
  constexpr char kJson[] = R"({"folder":0,"target_bytes":0,"count":1})";
  EXPECT_TRUE(Decode(MessageType::kDirectoryList, kJson, RawEntry(good)).ok());
  std::vector<DirectoryEntry> bad(13, good);
  bad[0].path = "../a";
  bad[1].path = "/a";
  bad[2].path = "";
  bad[3].mode = 01777;
  bad[4].mtime_ns = 1'000'000'000;
  bad[5].size = uint64_t{1} << 63;
  bad[6].link = "x";                        // of a file
  bad[7].kind = DirectoryEntryKind::kLink;  // that says nothing
  bad[8].mtime_s = INT64_MIN;
  bad[9].path = std::string("a\0b", 3);
  for (size_t i = 10; i < 13; ++i) bad[i].kind = DirectoryEntryKind::kFileOrInto;
  bad[10].link = "a/b";
  bad[11].link = "..";
  bad[12].link = "";
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, kJson, RawEntry(bad[i]))) << i;
    EXPECT_EQ(EncodeMessage({1, ListOf(bad[i])}).status().code(), ErrorCode::kInternal) << i;
  }
  DirectoryEntry unknown = good;
  unknown.kind = static_cast<DirectoryEntryKind>(5);
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, kJson, RawEntry(unknown)));
}

TEST(DirectoryCodecTest, Version1HasNoKind4) {
  const std::string raw = RawEntry({DirectoryEntryKind::kFileOrInto, 0644, 1, 2, 3, "a", "b"});
  constexpr char kJson[] = R"({"folder":0,"target_bytes":0,"count":1})";
  EXPECT_TRUE(Decode(MessageType::kDirectoryList, kJson, raw, 2).ok());
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, kJson, raw));
}

TEST(DirectoryCodecTest, EntriesAreAsManyAsCounted) {
  const std::string raw = RawEntry({DirectoryEntryKind::kFile, 0644, 1, 2, 3, "a", ""});
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, R"({"count":2})", raw));
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, R"({"count":0})", raw));
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, R"({"count":2049})", raw));
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, R"({"target_bytes":100,"count":1})", raw));
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryList, R"({"target_bytes":1,"count":0})",
                        std::string(1, '\0')));
}

TEST(DirectoryCodecTest, RangesRiseAndStayInAList) {
  EXPECT_TRUE(Decode(MessageType::kDirectoryWanted, R"({"ranges":[[0,2],[2,1],[9,2039]]})").ok());
  for (const char* ranges : {"[[0,0]]", "[[0,2],[1,1]]", "[[5,1],[0,1]]", "[[2047,2]]",
                             "[[0,2049]]", "[[-1,1]]", "[[0]]", "[0]", "{}", "[[0,4294967297]]"}) {
    EXPECT_TRUE(
        IsRefused(MessageType::kDirectoryWanted, "{\"ranges\":" + std::string(ranges) + "}"))
        << ranges;
  }
}

TEST(DirectoryCodecTest, RawBytesAreAsManyAsSaid) {
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryWanted, R"({"root_bytes":2})", "/"));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"bytes":3})", "ab"));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"bytes":1})", "ab"));
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryProblem, R"({"path_bytes":0})", "ab"));
  EXPECT_TRUE(
      IsRefused(MessageType::kDirectoryProblem, R"({"path_bytes":1})", std::string(1, '\0')));
  EXPECT_TRUE(IsRefused(MessageType::kFileTaken, R"({"files":1,"bytes":1})", "x"));
}

TEST(DirectoryCodecTest, FileIsOfBoundedSizeAndSaysOneThing) {
  File file;
  file.bytes.assign(kMaxFileChunk, 'x');
  EXPECT_TRUE(EncodeMessage({1, file}).ok());
  file.bytes += 'x';
  EXPECT_EQ(EncodeMessage({1, file}).status().code(), ErrorCode::kInternal);
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"bytes":65537})", std::string(65537, 'x')));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"is_end":true,"is_restart":true})"));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"is_restart":true,"bytes":1})", "x"));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"entry":2048})"));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"mode":512})"));
  EXPECT_TRUE(IsRefused(MessageType::kFile, R"({"mtime_ns":1000000000})"));
}

TEST(DirectoryCodecTest, TakenStaysWithinTheWindow) {
  EXPECT_TRUE(IsRefused(MessageType::kFileTaken, R"({"bytes":1048577})"));
  EXPECT_TRUE(IsRefused(MessageType::kFileTaken, R"({"files":2049})"));
  EXPECT_TRUE(IsRefused(MessageType::kDirectoryProblem, R"({"error":4096})"));
}

}  // namespace
}  // namespace hvdray::wire
