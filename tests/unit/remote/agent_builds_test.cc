// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/agent_builds.h"

#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

std::string Elf(uint16_t machine, bool is_little = true, const std::string& rest = "") {
  std::string bytes(sizeof(Elf64_Ehdr), '\0');
  bytes.replace(0, SELFMAG, ELFMAG);
  bytes[EI_CLASS] = ELFCLASS64;
  bytes[EI_DATA] = is_little ? ELFDATA2LSB : ELFDATA2MSB;
  const size_t at = offsetof(Elf64_Ehdr, e_machine);
  bytes[at + (is_little ? 0 : 1)] = static_cast<char>(machine & 0xff);
  bytes[at + (is_little ? 1 : 0)] = static_cast<char>(machine >> 8);
  return bytes + rest;
}

class AgentBuildsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(WriteFileAtomically(directory_ / name, bytes).ok());
    return directory_ / name;
  }
  TempDirectory directory_;
};

TEST(ElfTest, TheMachineIsNamedAsUnameNamesIt) {
  EXPECT_EQ(*MachineOfElf(Elf(EM_X86_64)), "x86_64");
  EXPECT_EQ(*MachineOfElf(Elf(EM_AARCH64)), "aarch64");
  EXPECT_EQ(*MachineOfElf(Elf(EM_S390, false)), "s390x");
  EXPECT_FALSE(MachineOfElf(Elf(EM_AVR)).ok());
  EXPECT_FALSE(MachineOfElf("#!/bin/sh\n").ok());
  EXPECT_FALSE(MachineOfElf(Elf(EM_X86_64).substr(0, 20)).ok());
}

TEST_F(AgentBuildsTest, TheRightBuildGoesToEachMachine) {
  const std::string x86 = Write("x86", Elf(EM_X86_64));
  const std::string arm = Write("arm", Elf(EM_AARCH64));
  auto builds = AgentBuilds::Load(fmt::format("{},aarch64={}", x86, arm));
  ASSERT_TRUE(builds.ok()) << builds.status().ToString();
  EXPECT_EQ((*builds->For("Linux", "x86_64"))->path, x86);
  EXPECT_EQ((*builds->For("Linux", "aarch64"))->path, arm);
  const auto none = builds->For("Darwin", "arm64");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(none.status().message().find("Darwin arm64"), std::string::npos);
  EXPECT_NE(none.status().message().find("x86_64"), std::string::npos) << "both sides are named";
}

TEST_F(AgentBuildsTest, AFileThatExistsIsNoListWhateverItsName) {
  std::filesystem::create_directory(directory_ / "a=b, c");
  const std::string path = Write("a=b, c/agent", Elf(EM_X86_64));
  EXPECT_TRUE(AgentBuilds::IsOneFile(path));
  EXPECT_EQ((*AgentBuilds::Load(path)->For("Linux", "x86_64"))->path, path);
  EXPECT_FALSE(AgentBuilds::IsOneFile("x86_64=" + path));
}

TEST_F(AgentBuildsTest, TheStageIdFollowsTheBytes) {
  const std::string path = Write("agent", Elf(EM_X86_64));
  const std::string before = AgentBuilds::Load(path)->stage_id();
  EXPECT_EQ(AgentBuilds::Load(path)->stage_id(), before);
  Write("agent", Elf(EM_X86_64, true, "x"));
  EXPECT_NE(AgentBuilds::Load(path)->stage_id(), before);
}

TEST_F(AgentBuildsTest, WhatCannotBeStagedIsRefusedHere) {
  const std::string x86 = Write("x86", Elf(EM_X86_64));
  EXPECT_EQ(AgentBuilds::Load("/no/such/file").status().code(), ErrorCode::kFileUnreadable);
  EXPECT_EQ(AgentBuilds::Load("aarch64=" + x86).status().code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(AgentBuilds::Load(x86 + "," + x86).status().code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(AgentBuilds::Load(Write("script", "#!/bin/sh\n")).status().code(),
            ErrorCode::kSpecInvalid);
  EXPECT_FALSE(AgentBuilds::Load("").ok());
}

}  // namespace
}  // namespace hvdray
