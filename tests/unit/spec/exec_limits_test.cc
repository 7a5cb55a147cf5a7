// SPDX-License-Identifier: Apache-2.0
// The limits of execve: computed, and compared with this kernel's own answer. Not here: other
// kernels.
#include "launcher/job/exec_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/exec.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

constexpr uint64_t kUsualStack = uint64_t{8} << 20;

std::string Filled(size_t bytes) { return std::string(bytes, 'x'); }

TEST(CheckExecLimitsTest, NamesTheVariableThatIsTooLong) {
  // "BIG=" and the NUL count.
  EXPECT_TRUE(CheckExecLimits({}, Env({{"BIG", Filled(131072 - 5)}}), kUsualStack).ok());
  const Status status = CheckExecLimits({}, Env({{"BIG", Filled(131072 - 4)}}), kUsualStack);
  ExpectFault("BIG of 131068 bytes", status, ErrorCode::kEnvironmentTooLarge);
  EXPECT_NE(status.message().find("'BIG'"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find("131072"), std::string::npos) << status.ToString();
}

TEST(CheckExecLimitsTest, NamesTheWordThatIsTooLong) {
  const std::vector<std::string> command = {"./t", Filled(131072)};
  ExpectFault("a word of 131072 bytes", CheckExecLimits(command, {}, kUsualStack),
              ErrorCode::kEnvironmentTooLarge, "word 2");
}

TEST(CheckExecLimitsTest, NamesTheLargestWhenTheSumIsTooMuch) {
  std::map<std::string, std::string> many;
  for (int i = 0; i < 30; ++i) many["V" + std::to_string(i)] = Filled(100000);
  many["MOST"] = Filled(120000);
  const Status status = CheckExecLimits({}, Environment(many), kUsualStack);
  ExpectFault("31 large variables", status, ErrorCode::kEnvironmentTooLarge);
  EXPECT_NE(status.hint().find("'MOST' (120005 bytes), "), std::string::npos) << status.hint();
  EXPECT_TRUE(CheckExecLimits({}, Environment(many), uint64_t{16} << 20).ok());
}

TEST(CheckExecLimitsTest, TakesMoreThan128KibInAll) {
  std::map<std::string, std::string> many;
  for (int i = 0; i < 15; ++i) many["V" + std::to_string(i)] = Filled(100000);
  EXPECT_TRUE(CheckExecLimits({}, Environment(many), kUsualStack).ok());
}

TEST(CheckExecLimitsTest, KnowsTheKernelsFloorAndCeiling) {
  std::map<std::string, std::string> some;
  for (int i = 0; i < 10; ++i) some["V" + std::to_string(i)] = Filled(10000);
  EXPECT_TRUE(CheckExecLimits({}, Environment(some), 4096).ok()) << "at least 128 KiB";
  for (int i = 0; i < 70; ++i) some["W" + std::to_string(i)] = Filled(100000);
  EXPECT_FALSE(CheckExecLimits({}, Environment(some), RLIM_INFINITY).ok()) << "at most 6 MiB";
}

/// Errno of execing /bin/true in `environment`; 0 when it ran.
int ExecErrno(const Environment& environment) {
  const std::vector<std::string> strings = environment.ToStrings();
  const std::vector<char*> envp = ExecArray(strings);
  const pid_t child = ::fork();
  if (child == 0) {
    char name[] = "/bin/true";
    char* argv[] = {name, nullptr};
    ::execve(name, argv, envp.data());
    ::_exit(errno == E2BIG ? 100 : 101);
  }
  const int status = ReapChild(child);
  if (!WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 0 ? 0 : (WEXITSTATUS(status) == 100 ? E2BIG : -1);
}

TEST(CheckExecLimitsTest, AgreesWithThisKernel) {
  rlimit stack{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &stack), 0);
  for (const size_t bytes : {131072u - 5, 131072u - 4}) {
    const Environment one = Env({{"BIG", Filled(bytes)}});
    EXPECT_EQ(ExecErrno(one) == 0, CheckExecLimits({}, one, stack.rlim_cur).ok()) << bytes;
  }
  // Whatever we let pass, the kernel has to take: sums around its limit.
  for (int count = 10; count < 64; ++count) {
    std::map<std::string, std::string> many;
    for (int i = 0; i < count; ++i) many["V" + std::to_string(i)] = Filled(100000);
    const Environment environment(many);
    if (CheckExecLimits({}, environment, stack.rlim_cur).ok()) {
      EXPECT_EQ(ExecErrno(environment), 0) << count;
    } else {
      EXPECT_EQ(ExecErrno(environment), E2BIG) << count << ": refused too early";
      break;
    }
  }
}

}  // namespace
}  // namespace hvdray
