// SPDX-License-Identifier: Apache-2.0
// argparse's habits, word by word. The accepted forms were compared with horovodrun 0.28.1.
#include "launcher/job/argv.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

/// "num-proc=4 no:stall-check | ./train --x": options by row name, then the command.
std::string Shown(const ParsedArgv& argv) {
  std::string text;
  for (const ParsedOption& option : argv.options) {
    text += fmt::format("{}{}{}{} ", option.is_negation ? "no:" : "", option.row->name,
                        option.values.empty() ? "" : "=", fmt::join(option.values, ","));
  }
  return fmt::format("{}| {}", text, fmt::join(argv.command, " "));
}

std::string Parsed(const std::vector<std::string>& words) {
  const Result<ParsedArgv> argv = ParseArgv(words);
  return argv.ok() ? Shown(*argv) : "error: " + argv.status().message();
}
std::string Parsed(const std::string& line) { return Parsed(Words(line)); }

/// Expects that the line is refused and that message and hint name `facts`.
void ExpectBad(const std::string& line, Facts facts) {
  const Status status = ParseArgv(Words(line)).status();
  ExpectFault(line, status, ErrorCode::kUsage);
  EXPECT_TRUE(NamesFacts(status.ToString(), facts)) << status.ToString();
}

TEST(ArgvTest, TakesEveryFormOfAValueThatHorovodrunTakes) {
  EXPECT_EQ(Parsed("-np 4 ./t"), "num-proc=4 | ./t");
  EXPECT_EQ(Parsed("-np=4 ./t"), "num-proc=4 | ./t");
  EXPECT_EQ(Parsed("--num-proc=4 ./t"), "num-proc=4 | ./t");
  EXPECT_EQ(Parsed("-n 4 ./t"), "num-proc=4 | ./t");
  EXPECT_EQ(Parsed("-p22 ./t"), "ssh-port=22 | ./t");
  EXPECT_EQ(Parsed("-p=22 ./t"), "ssh-port=22 | ./t");
  EXPECT_EQ(Parsed("-Hlocalhost:2 ./t"), "hosts=localhost:2 | ./t");
  EXPECT_EQ(Parsed("-H a:1,b:2 ./t"), "hosts=a:1,b:2 | ./t");
  EXPECT_EQ(Parsed("-hostfile hosts ./t"), "hostfile=hosts | ./t");
  EXPECT_EQ(Parsed("-prefix-timestamp ./t"), "prefix-output-with-timestamp | ./t");
  EXPECT_EQ(Parsed("--blacklist-cooldown-range 10 100 ./t"),
            "blacklist-cooldown-range=10,100 | ./t");
  EXPECT_EQ(Parsed("--output-filename= ./t"), "output-filename= | ./t");
  EXPECT_EQ(Parsed("--mpi-args=-x ./t"), "mpi-args=-x | ./t");
  EXPECT_EQ(Parsed("--hosts=a=b ./t"), "hosts=a=b | ./t");
}

TEST(ArgvTest, CutsAtTheFirstPositionalWordOrAtTwoDashes) {
  EXPECT_EQ(Parsed("-np 2 python train.py --verbose -np 3"),
            "num-proc=2 | python train.py --verbose -np 3");
  EXPECT_EQ(Parsed("-np 2 -- python -c x"), "num-proc=2 | python -c x");
  EXPECT_EQ(Parsed("-- -odd -- x"), "| -odd -- x");
  EXPECT_EQ(Parsed("-np 2 prog -- x"), "num-proc=2 | prog -- x");
  EXPECT_EQ(Parsed("python --vers"), "| python --vers");
  EXPECT_EQ(Parsed("- x"), "| - x");
  EXPECT_EQ(Parsed(std::vector<std::string>{"", "x"}), "|  x");
  EXPECT_EQ(Parsed(""), "| ");
  EXPECT_EQ(Parsed("--"), "| ");
}

TEST(ArgvTest, ExpandsUnambiguousPrefixesOfHorovodsOptionsOnly) {
  EXPECT_EQ(Parsed("--slots 4 ./t"), "slots-per-host=4 | ./t");
  EXPECT_EQ(Parsed("--slots=4 ./t"), "slots-per-host=4 | ./t");
  EXPECT_EQ(Parsed("--verb ./t"), "verbose | ./t");
  EXPECT_EQ(Parsed("--fus 1 ./t"), "fusion-threshold-mb=1 | ./t");
  EXPECT_EQ(Parsed("--no-st ./t"), "no:stall-check | ./t");
  EXPECT_EQ(Parsed("-c"), "check-build | ");
  EXPECT_EQ(Parsed("--min 2 ./t"), "min-np=2 | ./t") << "both spellings say the same";
  ExpectBad("--grac 4 ./t", {"'--grac'", "hint: ", "--grace"});
  ExpectBad("--ver ./t", {"'--ver'", "ambiguous", "--version, --verbose"});
  EXPECT_EQ(Parsed("--network=eth0 ./t"), "network-interfaces=eth0 | ./t");
}

TEST(ArgvTest, GivesTheFullSpellingForAnAbbreviation) {
  const std::vector<std::string> words = Words("--slots 4 -p22 x");
  const Result<ParsedArgv> argv = ParseArgv(words);
  ASSERT_TRUE(argv.ok());
  EXPECT_EQ(argv->options[0].spelling, "--slots-per-host");
  EXPECT_EQ(argv->options[1].spelling, "-p");
}

TEST(ArgvTest, TakesNegativeNumbersAndWordsWithABlankAsValues) {
  EXPECT_EQ(Parsed("-np -1 ./t"), "num-proc=-1 | ./t");
  EXPECT_EQ(Parsed("--cycle-time-ms -.5 ./t"), "cycle-time-ms=-.5 | ./t");
  EXPECT_EQ(Parsed(std::vector<std::string>{"--mpi-args", "-x FOO", "./t"}),
            "mpi-args=-x FOO | ./t");
  EXPECT_EQ(Parsed("--output-filename - ./t"), "output-filename=- | ./t");
  ExpectBad("--output-filename -5.x ./t", {"option --output-filename", "value"});
  ExpectBad("-1 ./t", {"option '-1'"});
}

TEST(ArgvTest, TakesLettersTogetherInOneWord) {
  EXPECT_EQ(Parsed("-qxA=1 ./t"), "quiet env=A=1 | ./t");
  EXPECT_EQ(Parsed("-qx A=1 ./t"), "quiet env=A=1 | ./t");
  EXPECT_EQ(Parsed("-qp=22 ./t"), "quiet ssh-port=22 | ./t");
  EXPECT_EQ(Parsed("-qfjob.yaml"), "quiet file=job.yaml | ");
  EXPECT_EQ(Parsed("-qv ./t"), "quiet version | ");
  ExpectBad("-qz ./t", {"option '-z'", "'-qz'"});
  EXPECT_EQ(Parsed("-xA=1 -x B ./t"), "env=A=1 env=B | ./t");
}

TEST(ArgvTest, SurvivesAWordOfThirtyThousandLetters) {
  const std::string word = "-" + std::string(30000, 'q');
  const Result<ParsedArgv> argv = ParseArgv(std::vector<std::string>{word, "./t"});
  ASSERT_TRUE(argv.ok());
  EXPECT_EQ(argv->options.size(), 30000u);
}

TEST(ArgvTest, NamesWhatIsMissingOrTooMuch) {
  ExpectBad("-np", {"option -np", "value", "hint: -np N"});
  ExpectBad("-np -H a:1 ./t", {"option -np", "value"});
  ExpectBad("-np --hosts a:1 ./t", {"option -np", "value", "hint: ", "-np=VALUE"});
  ExpectBad("-np -- ./t", {"option -np", "value"});
  ExpectBad("--verbose=1 ./t", {"option --verbose", "no value"});
  ExpectBad("--no-stall-check=0 ./t", {"option --no-stall-check", "no value"});
  ExpectBad("-q=1 ./t", {"option -q", "no value"});
  EXPECT_EQ(Parsed("--blacklist-cooldown-range 10 ./t"), "blacklist-cooldown-range=10,./t | ");
  ExpectBad("--blacklist-cooldown-range 10 --verbose ./t",
            {"option --blacklist-cooldown-range", "2 values"});
  ExpectBad("--blacklist-cooldown-range=10 100 ./t",
            {"option --blacklist-cooldown-range", "2 values", "separate words"});
}

TEST(ArgvTest, NamesTheNearestOfAnUnknownOption) {
  ExpectBad("--hostss a:1 ./t", {"option '--hostss'", "hint: ", "--hosts"});
  ExpectBad("--reprot=x ./t", {"option '--reprot'", "hint: ", "--report"});
  ExpectBad("-np4 ./t", {"option '-np4'", "hint: ", "-np"});
  ExpectBad("--something-else-entirely ./t", {"hint: ", "hvdray run --help"});
  ExpectBad("--=x ./t", {"option '--'"});
}

TEST(ArgvTest, CallsAGluedLetterAmbiguousWhenALongerOptionBeginsSo) {
  ExpectBad("-prefix ./t", {"'-prefix'", "ambiguous", "-prefix-timestamp, -p"});
  ExpectBad("-hostfil x ./t", {"'-hostfil'", "ambiguous"});
}

TEST(ArgvTest, TakesAnOptionalChoiceOnlyAfterAnEqualsSign) {
  EXPECT_EQ(Parsed("--print-plan ./t"), "print-plan | ./t");
  EXPECT_EQ(Parsed("--print-plan=json ./t"), "print-plan=json | ./t");
  EXPECT_EQ(Parsed("--print-plan json"), "print-plan | json");
}

TEST(ArgvTest, EndsAtHelpVersionAndCheckBuild) {
  ExpectBad("--no-such -h", {"option '--no-such'"});
  EXPECT_EQ(Parsed("-h --no-such"), "help | ");
  EXPECT_EQ(Parsed("-np 2 -v x"), "num-proc=2 version | ");
  EXPECT_EQ(Parsed("-cb x"), "check-build | ");
  EXPECT_EQ(Parsed("python -h"), "| python -h");
}

}  // namespace
}  // namespace hvdray
