// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/check_findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "tests/unit/check/sample_check.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/check.txt");

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// What is found when `spoil` has been at the first of two hosts that are well.
std::vector<Finding> FindingsAfter(const std::function<void(CheckFacts&, CheckedHost&)>& spoil) {
  CheckFacts facts = GoodFacts();
  spoil(facts, facts.hosts[0]);
  return FindFindings(facts);
}

/// The one finding; its text is that of node1 without its name.
Finding OnlyFinding(const std::function<void(CheckFacts&, CheckedHost&)>& spoil) {
  std::vector<Finding> findings = FindingsAfter(spoil);
  EXPECT_EQ(findings.size(), 1U);
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.hint.empty()) << finding.text;
    EXPECT_NE(std::find(kFindingKinds.begin(), kFindingKinds.end(), finding.kind),
              kFindingKinds.end())
        << finding.kind;
  }
  return findings.empty() ? Finding() : findings[0];
}

TEST(CheckFindingsTest, HostsThatAreWellGiveNoFindingAndZero) {
  EXPECT_TRUE(FindFindings(GoodFacts()).empty());
  EXPECT_TRUE(FindFindings(GoodFacts(1)).empty());
  EXPECT_EQ(ExitCode({}), 0);
}

TEST(CheckFindingsTest, ALostHostIsAnErrorWithItsOwnCodeAndHint) {
  const Finding finding = OnlyFinding([](CheckFacts&, CheckedHost& host) {
    host.lost = Status(ErrorCode::kAuthenticationFailed, "host node1: no key is taken", "-i KEY");
  });
  EXPECT_TRUE(finding.is_error());
  EXPECT_EQ(finding.code, ErrorCode::kAuthenticationFailed);
  EXPECT_EQ(finding.text, "host node1: no key is taken");
  EXPECT_EQ(finding.hint, "-i KEY");
  EXPECT_EQ(finding.hosts, std::vector<std::string>{"node1"});
  EXPECT_EQ(ExitCode(std::span(&finding, 1)), 125);
}

TEST(CheckFindingsTest, HostsLostAlikeAreOneFinding) {
  CheckFacts facts = GoodFacts(200);
  for (CheckedHost& host : facts.hosts) {
    host.lost = Status(ErrorCode::kHostRefused, "host " + host.name + ": refused", "look");
  }
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, "hosts node[1-200]: refused");
  EXPECT_EQ(findings[0].hosts.size(), 200U);
}

TEST(CheckFindingsTest, ManyReasonsOfLossAreAllNamed) {
  CheckFacts facts = GoodFacts(9);
  for (CheckedHost& host : facts.hosts) {
    const std::string reason(1, static_cast<char>('a' + host.name.back() - '1'));
    host.lost = Status(ErrorCode::kHostRefused, "reason " + reason);
  }
  EXPECT_EQ(FindFindings(facts).size(), 9U);
}

TEST(CheckFindingsTest, OneMachineUnderSeveralNamesIsAWarning) {
  const Finding finding = OnlyFinding([](CheckFacts& facts, CheckedHost& host) {
    CheckedHost& other = facts.hosts[1];
    other.facts = host.facts;
    other.facts.agent_pid = 4711;
  });
  EXPECT_EQ(finding.kind, "one_machine");
  EXPECT_FALSE(finding.is_error());
  EXPECT_EQ(finding.text, "hosts node[1-2]: one machine, node1, by 2 names");
  EXPECT_EQ(finding.hosts, (std::vector<std::string>{"node1", "node2"}));
  const std::vector<Finding> twins = FindingsAfter([](CheckFacts& facts, CheckedHost& host) {
    facts.hosts[1].facts.host_name = host.facts.host_name;  // as in containers made alike
  });
  EXPECT_TRUE(twins.empty()) << twins[0].text;
}

TEST(CheckFindingsTest, AnotherProgramOnPathIsAWarningThatNamesBoth) {
  const Finding finding = OnlyFinding([](CheckFacts& facts, CheckedHost&) {
    facts.path = "/env/bin/hvdray";
    facts.others = {{"/usr/bin/hvdray", "hvdray 0.0.9 (abc1234)"}};
  });
  EXPECT_EQ(finding.kind, "other_hvdray");
  EXPECT_FALSE(finding.is_error());
  ExpectSays(finding.text, {"/usr/bin/hvdray", "0.0.9", "/env/bin/hvdray", "0.1.0"});
  const Finding mute = OnlyFinding([](CheckFacts& facts, CheckedHost&) {
    facts.path = "/env/bin/hvdray";
    facts.others = {{"/usr/bin/hvdray", ""}};
  });
  ExpectSays(mute.text, {"/usr/bin/hvdray", "does not say"});
}

struct ClockRow {
  nanoseconds offset, bound;
  std::string_view difference;  // empty: no finding
};

TEST(CheckFindingsTest, AClockIsWrongOnceItIsSurelyOffByMoreThanASecond) {
  const ClockRow rows[] = {
      {milliseconds(999), milliseconds(0), ""},
      {milliseconds(1000), milliseconds(0), ""},
      {milliseconds(1001), milliseconds(0), "1.0 s ahead"},
      {milliseconds(1500), milliseconds(600), ""},  // it may be the network
      {milliseconds(-90000), milliseconds(10), "90.0 s behind"},
  };
  for (const ClockRow& row : rows) {
    const auto findings = FindingsAfter([&row](CheckFacts&, CheckedHost& host) {
      host.clock = ClockReading{row.offset, row.bound};
    });
    EXPECT_EQ(findings.size(), row.difference.empty() ? 0U : 1U);
    if (!findings.empty()) {
      EXPECT_FALSE(findings[0].is_error());
      ExpectFinding(findings[0], "clock", {"host node1", row.difference});
    }
  }
}

TEST(ReadClockTest, IsTheMiddleOfTheExchangeBoundedByTheWay) {
  const uint64_t second = 1'000'000'000;
  wire::Inspection inspection;
  // Asked at 100 s, 0.2 s there, 5 s of work, 0.4 s back; their clock is 10 s ahead.
  inspection.received_ns = 110 * second + second / 5;
  inspection.sent_ns = 115 * second + second / 5;
  const ClockReading reading = ReadClock(100 * second, 105 * second + 3 * second / 5, inspection);
  EXPECT_EQ(reading.offset, milliseconds(9900));
  EXPECT_EQ(reading.bound, milliseconds(300));
}

TEST(ReadClockTest, AnyNumbersOfAPeerAreTakenWithoutHarm) {
  const uint64_t numbers[] = {0, 1, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX};
  for (const uint64_t received : numbers) {
    for (const uint64_t sent : numbers) {
      wire::Inspection inspection;
      inspection.received_ns = received;
      inspection.sent_ns = sent;
      const ClockReading reading = ReadClock(1'700'000'000'000'000'000, UINT64_MAX, inspection);
      EXPECT_GE(reading.bound.count(), 0);
      CheckFacts facts = GoodFacts(1);
      facts.hosts[0].clock = reading;
      EXPECT_LE(FindFindings(facts).size(), 1U);
    }
  }
}

TEST(CheckFindingsTest, AWorkingDirectoryThatIsMissingOrNotOursAloneIsAnError) {
  for (const auto& [number, text] :
       {std::pair<int, std::string>(ENOENT, std::strerror(ENOENT)), {EPERM, "other users"}}) {
    const Finding error = OnlyFinding([number = number](CheckFacts&, CheckedHost& host) {
      host.inspection->directories[4] = {"working", "/data/job", number};
    });
    EXPECT_EQ(error.code, ErrorCode::kWorkerStartFailed);
    ExpectFinding(error, "working_folder", {"host node1", "/data/job", text});
    EXPECT_EQ(ExitCode(std::span(&error, 1)), 125);
  }
}

TEST(CheckFindingsTest, AWorkingDirectoryThatIsCopiedThereNeedNotExistYet) {
  EXPECT_TRUE(FindingsAfter([](CheckFacts& facts, CheckedHost& host) {
                host.inspection->directories[4] = {"working", "/data/job", ENOENT};
                facts.is_directory_synced = true;
              }).empty());
}

TEST(CheckFindingsTest, AScriptThatIsNotThereIsAnErrorLikeACommandThatIsNot) {
  const Finding finding = OnlyFinding([](CheckFacts& facts, CheckedHost& host) {
    facts.script = "train.py";
    host.inspection->missing_files = {{"train.py", ENOENT}};
  });
  ExpectFinding(finding, "files", {"host node1", "train.py", "/data/job", std::strerror(ENOENT)});
  EXPECT_EQ(ExitCode(std::span(&finding, 1)), 127);
}

TEST(CheckFindingsTest, OtherArgumentsThatAreFilesHereAreAWarning) {
  const Finding finding = OnlyFinding([](CheckFacts& facts, CheckedHost& host) {
    facts.script = "train.py";
    host.inspection->missing_files = {{"a.yaml", ENOENT}, {"/etc/b", EACCES}};
  });
  EXPECT_FALSE(finding.is_error());
  ExpectFinding(finding, "files", {"host node1", "a.yaml in /data/job", "/etc/b", "this machine"});
}

TEST(CheckFindingsTest, AModuleThatCannotBeImportedIsAnErrorAndSaysWhy) {
  const Finding finding = OnlyFinding([](CheckFacts&, CheckedHost& host) {
    host.inspection->modules = {{"numpy", "1.24", ""},
                                {"torch", "", "ModuleNotFoundError: No module named 'torch'"}};
  });
  ExpectFinding(finding, "imports", {"host node1", "torch", "ModuleNotFoundError"});
  EXPECT_EQ(ExitCode(std::span(&finding, 1)), 1);
}

TEST(CheckFindingsTest, VersionsOfModulesAreCompared) {
  CheckFacts facts = GoodFacts();
  facts.hosts[0].inspection->modules = {{"torch", "1.13.0", ""}};
  facts.hosts[1].inspection->modules = {{"torch", "2.1.0", ""}};
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_EQ(findings.size(), 1U);
  ExpectFinding(findings[0], "differences", {"differ in modules"});
}

TEST(CheckFindingsTest, ANameThatResolvesToLoopbackIsAWarningWhereThereAreOtherHosts) {
  for (const char* address : {"127.0.1.1", "127.0.0.1", "::1"}) {
    const Finding finding = OnlyFinding([&](CheckFacts&, CheckedHost& host) {
      host.inspection->name_addresses = {address, "10.1.0.1"};
    });
    EXPECT_FALSE(finding.is_error());
    ExpectFinding(finding, "host_name", {"host node1", "name node1", address});
  }
  EXPECT_TRUE(FindingsAfter([](CheckFacts&, CheckedHost& host) {
                host.inspection->name_addresses = {"10.1.0.1", "127.0.1.1"};
              }).empty());
  CheckFacts alone = GoodFacts(1);
  alone.hosts[0].inspection->name_addresses = {"127.0.1.1"};
  EXPECT_TRUE(FindFindings(alone).empty());
}

struct CommandRow {
  int error;
  const char* path;
  ErrorCode code;
  int exit_code;
  std::string_view fact;
};

TEST(CheckFindingsTest, AMissingCommandGivesTheCodeThatTheJobWould) {
  const CommandRow rows[] = {
      {ENOENT, "", ErrorCode::kCommandNotFound, 127, "python3"},
      {EACCES, "/a/train.py", ErrorCode::kCommandNotExecutable, 126, "/a/train.py"},
      {ELIBACC, "/a/train.py", ErrorCode::kCommandNotExecutable, 126, "interpreter of /a/train.py"},
  };
  for (const CommandRow& row : rows) {
    const Finding finding = OnlyFinding([&row](CheckFacts&, CheckedHost& host) {
      host.inspection->command_error = row.error;
      host.inspection->command_path = row.path;
    });
    EXPECT_EQ(finding.code, row.code);
    ExpectFinding(finding, "command", {"host node1", row.fact});
    EXPECT_EQ(ExitCode(std::span(&finding, 1)), row.exit_code);
  }
}

TEST(CheckFindingsTest, ACommandThatWasNotLookedForInTimeIsNotMissing) {
  const Finding finding = OnlyFinding([](CheckFacts&, CheckedHost& host) {
    host.inspection->command_error = ENOENT;
    host.inspection->unanswered = {"command", "nvidia-smi"};
  });
  ExpectFinding(finding, "unanswered", {"host node1", "command, nvidia-smi"});
}

TEST(CheckFindingsTest, DirectoriesOnOneFullDiskAreOneFinding) {
  const Finding finding = OnlyFinding([](CheckFacts&, CheckedHost& host) {
    for (wire::DirectoryFacts& directory : host.inspection->directories) {
      if (directory.use != "shm" && directory.use != "working")
        directory.free_bytes = 12 * kTestMiB;
    }
  });
  ExpectFinding(finding, "disk",
                {"host node1", "12 MiB", "100 GiB", "/home/ann, /home/ann/.cache/hvdray, /tmp"});
}

TEST(CheckFindingsTest, AFileSystemWithoutASizeIsNotFull) {
  EXPECT_TRUE(FindingsAfter([](CheckFacts&, CheckedHost& host) {
                for (wire::DirectoryFacts& directory : host.inspection->directories) {
                  directory.total_bytes = directory.free_bytes = 0;
                }
              }).empty());
}

TEST(CheckFindingsTest, SmallSharedMemoryMissingHomeAndReadOnlyTmpAreWarnings) {
  ExpectFinding(OnlyFinding([](CheckFacts&, CheckedHost& host) {
                  host.inspection->directories[2].total_bytes = 64 * kTestMiB;
                }),
                "shared_memory", {"host node1", "/dev/shm", "64 MiB"});
  ExpectFinding(OnlyFinding([](CheckFacts&, CheckedHost& host) {
                  host.inspection->directories[3] = {"home", "", ENOENT};
                }),
                "disk", {"host node1", "home directory"});
  ExpectFinding(OnlyFinding([](CheckFacts&, CheckedHost& host) {
                  host.inspection->directories[1].is_writable = false;
                }),
                "disk", {"host node1", "/tmp"});
}

TEST(CheckFindingsTest, LimitsAreJudgedByWhatTheWorkersNeed) {
  const auto with_limit = [](const char* name, uint64_t soft) {
    return [name, soft](CheckFacts&, CheckedHost& host) {
      for (wire::LimitFacts& limit : host.inspection->limits) {
        if (limit.name == name) limit.soft = soft;
      }
    };
  };
  ExpectFinding(OnlyFinding(with_limit("nofile", 559)), "limits",
                {"host node1", "nofile", "559", "560"});
  EXPECT_TRUE(FindingsAfter(with_limit("nofile", 560)).empty());
  ExpectFinding(OnlyFinding(with_limit("nproc", 100)), "limits",
                {"host node1", "nproc", "100", "768"});
  ExpectFinding(OnlyFinding(with_limit("as", 4 * kTestGiB)), "limits",
                {"host node1", "as", "4 GiB", "none"});
  // Core dumps and stacks are shown and never blamed; locked memory is for adapters that pin it.
  EXPECT_TRUE(FindingsAfter(with_limit("stack", kTestMiB)).empty());
  EXPECT_TRUE(FindingsAfter(with_limit("memlock", 65536)).empty());
  ExpectFinding(OnlyFinding([&](CheckFacts& facts, CheckedHost& host) {
                  with_limit("memlock", 65536)(facts, host);
                  host.inspection->infiniband_count = 1;
                }),
                "limits", {"host node1", "memlock", "64 KiB", "none"});
}

TEST(CheckFindingsTest, MoreWorkersThanCpusMemoryOrGpusAreWarnings) {
  ExpectFinding(OnlyFinding([](CheckFacts&, CheckedHost& host) { host.facts.cpu_count = 3; }),
                "cpus", {"host node1", "4 workers", "3 CPUs"});
  ExpectFinding(OnlyFinding([](CheckFacts&, CheckedHost& host) {
                  host.inspection->memory_limit_bytes = 512 * kTestMiB;
                }),
                "memory", {"host node1", "512 MiB", "4 workers"});
  CheckFacts facts = GoodFacts(1);
  facts.hosts[0].inspection->gpus = {{"A", 0}, {"A", 0}};
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_EQ(findings.size(), 1U);
  ExpectFinding(findings[0], "gpus", {"host node1", "4 workers", "2 GPUs"});
}

TEST(CheckFindingsTest, GpusThatCannotBeUsedAreSaid) {
  CheckFacts facts = GoodFacts(1);
  facts.hosts[0].inspection->gpu_driver = "535.104.05";
  facts.hosts[0].inspection->gpu_trouble = "Failed to initialize NVML: Driver mismatch";
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_EQ(findings.size(), 2U);
  ExpectFinding(findings[0], "gpus", {"host node1", "535.104.05", "/dev/nvidia0"});
  ExpectFinding(findings[1], "gpus",
                {"host node1", "nvidia-smi", facts.hosts[0].inspection->gpu_trouble});
}

TEST(CheckFindingsTest, AnAgentOfAnotherVersionIsAWarningAndACommitIsNone) {
  ExpectFinding(OnlyFinding([](CheckFacts&, CheckedHost& host) { host.build = "hvdray 0.0.9"; }),
                "build", {"host node1", "agent", "hvdray 0.0.9", "hvdray 0.1.0"});
  EXPECT_TRUE(FindingsAfter([](CheckFacts&, CheckedHost& host) {
                host.build = "hvdray 0.1.0 (def5678)";
              }).empty());
}

TEST(CheckFindingsTest, AHostThatDoesNotAnswerIsAnError) {
  const Finding finding =
      OnlyFinding([](CheckFacts&, CheckedHost& host) { host.inspection.reset(); });
  EXPECT_EQ(finding.kind, "silent");
  EXPECT_EQ(finding.code, ErrorCode::kDeadlineExceeded);
}

TEST(CheckFindingsTest, AHostWithoutAnInterfaceIsAnError) {
  const Finding finding = OnlyFinding([](CheckFacts&, CheckedHost& host) {
    host.nic_status = Status(ErrorCode::kNoUsableInterface, "host node1 has no interface");
  });
  EXPECT_EQ(finding.text, "host node1: no interface");
  EXPECT_EQ(finding.code, ErrorCode::kNoUsableInterface);
  EXPECT_EQ(ExitCode(std::span(&finding, 1)), 125);
}

TEST(CheckFindingsTest, GpusWithErrorsAndLoweredClocksAreWarnings) {
  const auto findings = FindingsAfter([](CheckFacts& facts, CheckedHost& host) {
    for (CheckedHost& other : facts.hosts) {
      other.inspection->gpus = std::vector<wire::GpuFacts>(4, {"H100", 0, 0, 0x5, 18});
    }
    host.inspection->gpus[2] = {"H100", 0, 3, 0x48, 17};
  });
  ASSERT_EQ(findings.size(), 3U);
  ExpectFinding(findings[0], "gpus", {"host node1", "GPU 2", "3 uncorrected ECC errors"});
  ExpectFinding(findings[1], "gpus", {"GPU 2", "hardware slowdown", "too hot"});
  ExpectFinding(findings[2], "differences", {"NVLinks"});
}

TEST(CheckFindingsTest, DifferencesBetweenHostsAreOneWarning) {
  CheckFacts facts = GoodFacts(4);
  facts.hosts[2].inspection->libc = "glibc 2.31";
  facts.hosts[3].inspection->libc = "glibc 2.31";
  facts.hosts[3].inspection->command_version = "Python 3.8.10";
  facts.hosts[1].inspection->kernel.clear();  // unknown is not different
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(findings[0].is_error());
  ExpectFinding(findings[0], "differences", {"differ in libc, Python"});
}

TEST(CheckFindingsTest, WhatManyHostsHaveAlikeIsOneFindingWithTheNumbersOfTheFirst) {
  CheckFacts facts = GoodFacts(100);
  for (size_t i = 0; i < facts.hosts.size(); ++i) {
    facts.hosts[i].clock = ClockReading{seconds(10 + i), milliseconds(1)};
    facts.hosts[i].facts.cpu_count = 2;
  }
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_EQ(findings.size(), 2U);
  ExpectFinding(findings[0], "clock", {"hosts node[1-100]", "10.0 s ahead", "0.001 s", "node1"});
  ExpectFinding(findings[1], "cpus", {"hosts node[1-100]", "4 workers", "2 CPUs"});
}

TEST(CheckFindingsTest, TheExitCodeIsThatOfWhatAJobWouldMeetFirst) {
  const auto error = [](ErrorCode code) { return Finding{"kind", code, "text", "hint", {}}; };
  const Finding slots = error(ErrorCode::kNotEnoughSlots);
  const Finding host = error(ErrorCode::kHostRefused);
  const Finding missing = error(ErrorCode::kCommandNotFound);
  const Finding denied = error(ErrorCode::kCommandNotExecutable);
  const Finding warning{"kind", ErrorCode::kOk, "text", "hint", {}};
  EXPECT_EQ(ExitCode(std::vector{warning}), 0);
  EXPECT_EQ(ExitCode(std::vector{missing, denied, warning}), 127);
  EXPECT_EQ(ExitCode(std::vector{denied, missing}), 126);
  EXPECT_EQ(ExitCode(std::vector{missing, host}), 125);
  EXPECT_EQ(ExitCode(std::vector{host, missing}), 125);
  EXPECT_EQ(ExitCode(std::vector{missing, host, slots}), 2);
}

TEST(CheckFindingsTest, TooFewSlotsStandBesideAllElseAndComeFirst) {
  CheckFacts facts = BadFacts();
  facts.slots = Status(ErrorCode::kNotEnoughSlots, "Requested more processes (9)", "-np 8");
  const std::vector<Finding> findings = FindFindings(facts);
  ASSERT_GT(findings.size(), 3U);
  EXPECT_EQ(findings[0].kind, "slots");
  EXPECT_EQ(ExitCode(findings), 2);
}

TEST(CheckFindingsTest, ErrorsStandBeforeWarningsAndEachHasAHint) {
  bool is_warning = false;
  for (const Finding& finding : FindFindings(BadFacts())) {
    EXPECT_FALSE(finding.hint.empty()) << finding.text;
    EXPECT_EQ(finding.text.find('\n'), std::string::npos);
    if (!finding.is_error()) is_warning = true;
    EXPECT_EQ(!finding.is_error(), is_warning) << finding.text;
  }
  EXPECT_TRUE(is_warning);
}

TEST(ShowBytesTest, HasAtMostTwoDigitsBehindWhichNothingCounts) {
  EXPECT_EQ(ShowBytes(0), "0 bytes");
  EXPECT_EQ(ShowBytes(1023), "1023 bytes");
  EXPECT_EQ(ShowBytes(1536), "1.5 KiB");
  EXPECT_EQ(ShowBytes(64 * kTestMiB), "64 MiB");
  EXPECT_EQ(ShowBytes(8 * kTestMiB), "8 MiB");
  EXPECT_EQ(ShowBytes(UINT64_MAX - 1), "16384 PiB");
  EXPECT_EQ(ShowBytes(UINT64_MAX), "none");
}

}  // namespace
}  // namespace hvdray
