// SPDX-License-Identifier: Apache-2.0
#include "agent/host_inspection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/agent.txt");

std::vector<wire::Inspection> Reports(const wire::Inspect& inspect) {
  std::vector<wire::Inspection> reports;
  GatherInspection(inspect,
                   [&reports](const wire::Inspection& report) { reports.push_back(report); });
  return reports;
}

void Write(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

TEST(GpuFactsTest, AreReadFromAFakeOfNvidiaSmi) {
  const TempDirectory directory;
  const std::string program = directory.path() + "/nvidia-smi";
  Write(program,
        "#!/bin/sh\n"
        "case \"$*\" in\n"
        "*name,driver_version*) printf 'NVIDIA H100, 535.104.05, 81559 MiB\\n"
        "NVIDIA H100, 535.104.05, 81559 MiB\\n' ;;\n"
        "*ecc.errors*) printf '[N/A], 0x0000000000000001\\n3, 0x0000000000000048\\n' ;;\n"
        "'nvlink --status') printf 'GPU 0: NVIDIA H100 (UUID: GPU-1)\\n"
        "\\t Link 0: 26.562 GB/s\\n\\t Link 1: 26.562 GB/s\\n"
        "GPU 1: NVIDIA H100 (UUID: GPU-2)\\n\\t Link 0: <inactive>\\n' ;;\n"
        "esac\n",
        0755);
  wire::Inspection facts;
  AskGpus(program, std::chrono::seconds(20), facts);
  EXPECT_EQ(facts.gpu_trouble, "");
  EXPECT_EQ(facts.gpu_driver, "535.104.05");
  const uint64_t memory = uint64_t{81559} << 20;
  EXPECT_EQ(facts.gpus, (std::vector<wire::GpuFacts>{{"NVIDIA H100", memory, -1, 1, 2},
                                                     {"NVIDIA H100", memory, 3, 0x48, 0}}));
}

TEST(GpuFactsTest, ADriverThatKnowsNoSuchFieldLeavesThemUnknown) {
  const TempDirectory directory;
  const std::string program = directory.path() + "/nvidia-smi";
  Write(program,
        "#!/bin/sh\n"
        "case \"$*\" in *name,driver*) echo 'Tesla, 390.1, 100 MiB' ;;\n"
        "*) echo 'Field is not a valid field to query.'; exit 2 ;; esac\n",
        0755);
  wire::Inspection facts;
  AskGpus(program, std::chrono::seconds(20), facts);
  EXPECT_EQ(facts.gpus, (std::vector<wire::GpuFacts>{{"Tesla", uint64_t{100} << 20}}));
}

TEST(PackagesTest, OnlyMarkedRowsCountAndTheFirstOfAName) {
  EXPECT_EQ(Packages("noise\nhvdray-package:Python 3.11.2\nhvdray-package:NCCL 2.18.5\r\n"
                     "hvdray-package:NCCL 2.1\nhvdray-package:broken\nhvdray-package:"),
            (std::vector<wire::PackageFacts>{{"Python", "3.11.2"}, {"NCCL", "2.18.5"}}));
}

TEST(PackagesTest, TheVersionOfNcclIsInTheNameOfItsFile) {
  EXPECT_EQ(NcclOfFile("libnccl.so.2.18.5"), "2.18.5");
  for (const char* name : {"libnccl.so.2", "libnccl.so.2.x", "libnccl.so", "other.so.2.1"}) {
    EXPECT_EQ(NcclOfFile(name), "") << name;
  }
}

TEST(VariablesTest, ThoseOfTrainingCountAndSecretsDoNot) {
  const auto variables = RelevantVariables({{"HOME", "/root"},
                                            {"HOROVOD_SECRET_KEY", "abc"},
                                            {"LD_LIBRARY_PATH", "/opt"},
                                            {"NCCL_DEBUG", std::string(5000, 'x')},
                                            {"TORCH_TOKEN", "abc"}});
  ASSERT_EQ(variables.size(), 2U);
  EXPECT_EQ(variables[0], (wire::VariableFacts{"LD_LIBRARY_PATH", "/opt", "login"}));
  EXPECT_EQ(variables[1].value.size(), 1024U);
}

TEST(VariablesTest, RowsOfNcclConf) {
  EXPECT_EQ(VariablesOfNcclConf("# a comment=1\n NCCL_DEBUG = WARN \n\n=x\nnonsense\n"),
            (std::vector<wire::VariableFacts>{{"NCCL_DEBUG", "WARN", "nccl.conf"}}));
}

TEST(HostInspectionTest, TellsOfThisHost) {
  wire::Inspect inspect;
  inspect.command = "sh";
  inspect.path = "/usr/bin:/bin";
  const std::vector<wire::Inspection> reports = Reports(inspect);
  ASSERT_GT(reports.size(), 2U);
  const wire::Inspection& facts = reports.back();
  EXPECT_TRUE(facts.unanswered.empty());
  EXPECT_FALSE(facts.kernel.empty());
  EXPECT_TRUE(facts.libc.starts_with("glibc 2.") || facts.libc.starts_with("musl ")) << facts.libc;
  EXPECT_GT(facts.memory_bytes, facts.available_bytes);
  EXPECT_GT(facts.available_bytes, 0U);
  EXPECT_EQ(facts.limits.size(), 6U);
  EXPECT_EQ(facts.limits[0].name, "nofile");
  EXPECT_GT(facts.limits[0].soft, 0U);
  EXPECT_EQ(facts.command_error, 0);
  EXPECT_TRUE(facts.command_path.ends_with("/sh"));
  EXPECT_EQ(facts.command_version, "");
  std::vector<std::string> uses;
  for (const wire::DirectoryFacts& directory : facts.directories) {
    uses.push_back(directory.use);
    if (directory.use != "tmp" && directory.use != "working") continue;
    EXPECT_EQ(directory.error, 0) << directory.path;
    EXPECT_GT(directory.total_bytes, 0U) << directory.path;
  }
  EXPECT_EQ(uses, (std::vector<std::string>{"agent", "tmp", "shm", "home", "working"}));
}

TEST(HostInspectionTest, EveryReportNamesWhatIsStillToCome) {
  wire::Inspect inspect;
  inspect.command = "sh";
  const std::vector<wire::Inspection> reports = Reports(inspect);
  for (size_t i = 0; i < reports.size(); ++i) {
    ASSERT_EQ(reports[i].unanswered.size(), reports.size() - 1 - i);
  }
  EXPECT_EQ(reports.front().unanswered.front(), "system");
}

TEST(HostInspectionTest, AWorkingDirectoryThatIsNotThereIsAnErrno) {
  const TempDirectory directory;
  wire::Inspect inspect;
  inspect.working_directory = directory / "nowhere";
  EXPECT_EQ(Reports(inspect).back().directories.back().error, ENOENT);
  Write(directory / "file", "", 0644);
  inspect.working_directory = directory / "file";
  EXPECT_EQ(Reports(inspect).back().directories.back().error, ENOTDIR);
}

TEST(FindCommandTest, LooksAlongThePathOfTheWorkers) {
  const TempDirectory directory;
  Write(directory / "train", "#!/bin/sh\n", 0755);
  wire::Inspect inspect;
  inspect.command = "train";
  inspect.path = "/usr/bin:" + directory.path();
  EXPECT_EQ(FindCommand(inspect).path, directory / "train");
  EXPECT_EQ(FindCommand(inspect).error, 0);
  inspect.path = "/usr/bin";
  EXPECT_EQ(FindCommand(inspect).error, ENOENT);
}

TEST(FindCommandTest, ARelativeCommandIsSeenFromTheWorkingDirectory) {
  const TempDirectory directory;
  Write(directory / "train.sh", "#!/bin/sh\n", 0755);
  wire::Inspect inspect;
  inspect.working_directory = directory.path();
  inspect.command = "./train.sh";
  EXPECT_EQ(FindCommand(inspect).error, 0);
  inspect.working_directory = directory / "nowhere";
  EXPECT_EQ(FindCommand(inspect).error, ENOENT) << "workers start somewhere else";
}

TEST(FindCommandTest, WhatCannotBeExecutedIsToldApartFromWhatIsMissing) {
  const TempDirectory directory;
  Write(directory / "data", "no program", 0644);
  Write(directory / "script", "#!/no/such/interpreter -x\n", 0755);
  Write(directory / "spaced", "#! /bin/sh -e\n", 0755);
  Write(directory / "dos", "#!/bin/sh\r\necho\r\n", 0755);
  wire::Inspect inspect;
  inspect.command = directory / "data";
  EXPECT_EQ(FindCommand(inspect).error, EACCES);
  inspect.command = directory / "script";
  EXPECT_EQ(FindCommand(inspect).error, ELIBACC);
  EXPECT_EQ(FindCommand(inspect).interpreter, "/no/such/interpreter");
  inspect.command = directory / "dos";
  EXPECT_EQ(FindCommand(inspect).error, ELIBACC);
  EXPECT_EQ(FindCommand(inspect).interpreter, "/bin/sh\r");
  std::ifstream program("/bin/true", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(program), {});
  const size_t loader = bytes.find("/lib");
  ASSERT_NE(loader, std::string::npos);
  bytes.replace(loader, 4, "/bil");
  Write(directory / "elsewhere", bytes, 0755);
  inspect.command = directory / "elsewhere";
  EXPECT_EQ(FindCommand(inspect).error, ELIBACC);
  EXPECT_EQ(FindCommand(inspect).interpreter, bytes.data() + loader);
  inspect.command = "/bin/true";
  EXPECT_EQ(FindCommand(inspect).error, 0);
  inspect.command = directory / "spaced";
  EXPECT_EQ(FindCommand(inspect).error, 0);
  inspect.command = directory.path();
  EXPECT_EQ(FindCommand(inspect).error, EACCES);
}

TEST(HostInspectionTest, APythonIsAskedForItsVersion) {
  const TempDirectory directory;
  Write(directory / "python3.99", "#!/bin/sh\necho Python 3.99.1\n", 0755);
  wire::Inspect inspect;
  inspect.command = directory / "python3.99";
  EXPECT_EQ(Reports(inspect).back().command_version, "Python 3.99.1");
}

TEST(HostInspectionTest, AScriptWhoseNameOnlyBeginsLikePythonIsNotRun) {
  for (const char* name : {"python_train.sh", "python3.11-train", "python2.sh"}) {
    const TempDirectory directory;
    Write(directory / name, "#!/bin/sh\necho Python 3.99.1\n: >\"$0.was-run\"\n", 0755);
    wire::Inspect inspect;
    inspect.command = directory / name;
    const wire::Inspection facts = Reports(inspect).back();
    EXPECT_EQ(facts.command_error, 0);
    EXPECT_EQ(facts.command_version, "");
    EXPECT_NE(::access((directory / name + ".was-run").c_str(), F_OK), 0) << name;
  }
}

TEST(HostInspectionTest, FilesOfTheCommandAreSeenFromTheWorkingDirectory) {
  const TempDirectory directory;
  Write(directory / "here.yaml", "", 0644);
  wire::Inspect inspect;
  inspect.working_directory = directory.path();
  inspect.files = {"here.yaml", "nosuch.py", directory / "here.yaml", "/no/such/file"};
  EXPECT_EQ(Reports(inspect).back().missing_files,
            (std::vector<wire::MissingFile>{{"nosuch.py", ENOENT}, {"/no/such/file", ENOENT}}));
}

TEST(HostInspectionTest, ModulesAreImportedByTheCommandsPythonInTheWorkersPlace) {
  const TempDirectory directory;
  Write(directory / "mine.py", "import os\n__version__ = os.environ['MINE']\nprint('noise')\n",
        0644);
  Write(directory / "broken.py", "import sys\nsys.exit('no luck')\n", 0644);
  wire::Inspect inspect;
  inspect.command = "python3";
  inspect.path = "/usr/bin:/bin";
  inspect.working_directory = directory.path();
  inspect.environment = {"MINE=4.2", "PATH=/usr/bin:/bin"};
  inspect.modules = {"mine", "broken", "nosuchmodule"};
  EXPECT_EQ(Reports(inspect).back().modules,
            (std::vector<wire::ModuleFacts>{
                {"mine", "4.2", ""},
                {"broken", "", "no luck"},
                {"nosuchmodule", "", "ModuleNotFoundError: No module named 'nosuchmodule'"}}));
}

TEST(HostInspectionTest, WithoutAPythonModulesSaySo) {
  wire::Inspect inspect;
  inspect.path = "/no/such/folder";
  inspect.modules = {"torch"};
  const std::vector<wire::ModuleFacts> modules = Reports(inspect).back().modules;
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0], (wire::ModuleFacts{"torch", "", modules[0].trouble}));
  ExpectSays(modules[0].trouble, {"python3", "PATH"});
}

TEST(HostTextsTest, AnImportCountsOnceItHasSaidSo) {
  EXPECT_EQ(ToModuleFacts("a", {1, "warning\n\nhvdray-imported:1.0\ncrash at the end\n"}),
            (wire::ModuleFacts{"a", "1.0", ""}));
  EXPECT_EQ(ToModuleFacts("a", {1, "Traceback:\nImportError: x\n\n"}),
            (wire::ModuleFacts{"a", "", "ImportError: x"}));
  const wire::ModuleFacts killed = ToModuleFacts("a", {139, "half a line"});
  EXPECT_EQ(killed.version, "");
  ExpectSays(killed.trouble, {"Python", "signal 11"});
  const wire::ModuleFacts failed = ToModuleFacts("a", {3, ""});
  EXPECT_EQ(failed.version, "");
  ExpectSays(failed.trouble, {"Python", "code 3"});
}

TEST(HostTextsTest, AddressesOfANameAreTakenOnceEach) {
  EXPECT_EQ(AddressesOf("127.0.1.1       STREAM node1\n127.0.1.1       DGRAM\n::1 STREAM x\n"
                        "no row\n\n"),
            (std::vector<std::string>{"127.0.1.1", "::1"}));
  EXPECT_EQ(AddressesOf(""), std::vector<std::string>());
}

TEST(HostTextsTest, LibcIsReadOutOfTheLibraryItself) {
  using std::string_literals::operator""s;
  EXPECT_EQ(LibcOfBanner("x\0GNU C Library (Debian GLIBC 2.36-9+deb12u4) stable release version "
                         "2.36.\nCopyright"s),
            "glibc 2.36");
  EXPECT_EQ(LibcOfBanner("\0GNU C Library wants\0\0GNU C Library (GNU libc) development release "
                         "version 2.40.9000.\n"s),
            "glibc 2.40.9000");
  EXPECT_EQ(LibcOfBanner("nothing of the kind"), "");
  EXPECT_EQ(LibcOfBanner("GNU C Library release version "), "");
}

TEST(HostTextsTest, DistributionMayBeQuoted) {
  EXPECT_EQ(Distribution("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(Distribution("PRETTY_NAME=Alpine"), "Alpine");
  EXPECT_EQ(Distribution("PRETTY_NAME=\"\n"), "\"");
  EXPECT_EQ(Distribution(""), "");
}

TEST(HostTextsTest, MemoryRowsAreInKibibytes) {
  const char* text = "MemTotal:       16000 kB\nMemAvailable:     12 kB\nHugePages_Total:   3\n";
  EXPECT_EQ(MemoryRow(text, "MemTotal"), 16000U << 10);
  EXPECT_EQ(MemoryRow(text, "MemAvailable"), 12U << 10);
  EXPECT_EQ(MemoryRow(text, "Mem"), 0U);
}

TEST(HostTextsTest, DriverVersionOfBothKindsOfModule) {
  EXPECT_EQ(NvidiaDriver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug\n"
                         "GCC version:  gcc 12.2.0\n"),
            "535.104.05");
  EXPECT_EQ(NvidiaDriver("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  "
                         "Release Build"),
            "550.54.14");
  EXPECT_EQ(NvidiaDriver("GCC version only"), "");
}

TEST(HostTextsTest, RowsOfNvidiaSmi) {
  std::string driver;
  const auto gpus = GpusOfSmi(
      "NVIDIA H100 80GB HBM3, 535.104.05, 81559 MiB\n"
      "Odd, with a comma, 535.104.05, [N/A]\n"
      "no row\n",
      &driver);
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0], (wire::GpuFacts{"NVIDIA H100 80GB HBM3", uint64_t{81559} << 20}));
  EXPECT_EQ(gpus[1], (wire::GpuFacts{"Odd, with a comma", 0}));
  EXPECT_EQ(driver, "535.104.05");
}

}  // namespace
}  // namespace hvdray
