// SPDX-License-Identifier: Apache-2.0
// The table against the list of Horovod's options, and rules that keep old scripts working.
#include "launcher/job/option_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "launcher/job/argv.h"
#include "launcher/job/option_value.h"
#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

/// horovodrun 0.28.1: every spelling that its parser knows, hidden ones too.
const std::set<std::string> kHorovodSpellings = {"-h",
                                                 "--help",
                                                 "-v",
                                                 "--version",
                                                 "-np",
                                                 "--num-proc",
                                                 "-cb",
                                                 "--check-build",
                                                 "--disable-cache",
                                                 "--start-timeout",
                                                 "--network-interfaces",
                                                 "--network-interface",
                                                 "--output-filename",
                                                 "--verbose",
                                                 "--config-file",
                                                 "-p",
                                                 "--ssh-port",
                                                 "-i",
                                                 "--ssh-identity-file",
                                                 "--fusion-threshold-mb",
                                                 "--cycle-time-ms",
                                                 "--cache-capacity",
                                                 "--hierarchical-allreduce",
                                                 "--no-hierarchical-allreduce",
                                                 "--hierarchical-allgather",
                                                 "--no-hierarchical-allgather",
                                                 "--torus-allreduce",
                                                 "--no-torus-allreduce",
                                                 "--autotune",
                                                 "--no-autotune",
                                                 "--autotune-log-file",
                                                 "--autotune-warmup-samples",
                                                 "--autotune-steps-per-sample",
                                                 "--autotune-bayes-opt-max-samples",
                                                 "--autotune-gaussian-process-noise",
                                                 "--min-np",
                                                 "--min-num-proc",
                                                 "--max-np",
                                                 "--max-num-proc",
                                                 "--slots-per-host",
                                                 "--elastic-timeout",
                                                 "--reset-limit",
                                                 "--blacklist-cooldown-range",
                                                 "--timeline-filename",
                                                 "--timeline-mark-cycles",
                                                 "--no-timeline-mark-cycles",
                                                 "--no-stall-check",
                                                 "--stall-check",
                                                 "--stall-check-warning-time-seconds",
                                                 "--stall-check-shutdown-time-seconds",
                                                 "--mpi-threads-disable",
                                                 "--no-mpi-threads-disable",
                                                 "--mpi-args",
                                                 "--tcp",
                                                 "--binding-args",
                                                 "--num-nccl-streams",
                                                 "--thread-affinity",
                                                 "--gloo-timeout-seconds",
                                                 "--log-level",
                                                 "--log-with-timestamp",
                                                 "--log-without-timestamp",
                                                 "-prefix-timestamp",
                                                 "--prefix-output-with-timestamp",
                                                 "--log-hide-timestamp",
                                                 "--no-log-hide-timestamp",
                                                 "-H",
                                                 "--hosts",
                                                 "-hostfile",
                                                 "--hostfile",
                                                 "--host-discovery-script",
                                                 "--gloo",
                                                 "--mpi",
                                                 "--jsrun"};

std::set<std::string> FrozenSpellings() {
  std::set<std::string> frozen;
  for (const Spelling& spelling : AllSpellings()) {
    if (spelling.is_abbreviable) frozen.insert(std::string(spelling.text));
  }
  return frozen;
}

TEST(OptionTableTest, HasExactlyHorovodsOptionsInTheFrozenList) {
  EXPECT_EQ(kHorovodSpellings.size(), 73u);
  EXPECT_EQ(FrozenSpellings(), kHorovodSpellings);
}

TEST(OptionTableTest, EverySpellingOfHorovodIsTakenByTheParser) {
  for (const std::string& spelling : kHorovodSpellings) {
    const Result<ParsedArgv> argv =
        ParseArgv(std::vector<std::string>{spelling, "1", "2", "./train"});
    ASSERT_TRUE(argv.ok()) << spelling << argv.status().ToString();
    ASSERT_EQ(argv->options.size(), 1u) << spelling;
    EXPECT_EQ(argv->options[0].spelling, spelling);
  }
}

TEST(OptionTableTest, NamesEachSpellingOnce) {
  std::set<std::string_view> seen;
  for (const Spelling& spelling : AllSpellings()) {
    EXPECT_TRUE(seen.insert(spelling.text).second) << spelling.text;
    EXPECT_TRUE(spelling.text.starts_with('-')) << spelling.text;
    EXPECT_EQ(&RowOf(spelling.row->id), spelling.row);
  }
}

TEST(OptionTableTest, NoOptionOfOursStandsInTheWayOfAnAbbreviationOfHorovods) {
  // If ours were a prefix of one of theirs, that abbreviation would change its meaning.
  for (const Spelling& ours : AllSpellings()) {
    if (ours.is_abbreviable) continue;
    for (const std::string& theirs : kHorovodSpellings) {
      EXPECT_FALSE(theirs.starts_with(ours.text)) << ours.text << " and " << theirs;
    }
  }
}

TEST(OptionTableTest, EveryPrefixOfALongOptionOfHorovodMeansWhatArgparseSays) {
  for (const std::string& spelling : kHorovodSpellings) {
    if (!spelling.starts_with("--")) continue;
    for (size_t size = 3; size < spelling.size(); ++size) {
      const std::string prefix = spelling.substr(0, size);
      std::set<std::pair<const OptionRow*, bool>> meanings;
      for (const Spelling& other : AllSpellings()) {
        if (other.is_abbreviable && other.text == prefix)
          meanings = {{other.row, other.is_negation}};
        if (other.text == prefix) break;
        if (other.is_abbreviable && other.text.starts_with(prefix)) {
          meanings.insert({other.row, other.is_negation});
        }
      }
      if (kHorovodSpellings.contains(prefix)) continue;
      const Result<ParsedArgv> argv =
          ParseArgv(std::vector<std::string>{prefix, "1", "2", "./train"});
      EXPECT_EQ(argv.ok(), meanings.size() == 1) << prefix;
      if (argv.ok()) {
        EXPECT_EQ(argv->options[0].row, meanings.begin()->first) << prefix;
      }
    }
  }
}

TEST(OptionTableTest, KeysAndVariablesAreUnique) {
  std::set<std::string> keys;
  std::set<std::string> variables;
  for (const OptionKey& key : AllKeys()) {
    EXPECT_TRUE(keys.insert(key.text).second) << key.text;
    EXPECT_TRUE(variables.insert(VariableOfKey(key.text)).second) << key.text;
    EXPECT_EQ(key.text.find('-'), std::string::npos) << key.text;
  }
  EXPECT_TRUE(keys.contains("np"));
  EXPECT_TRUE(keys.contains("num_proc"));
  EXPECT_TRUE(keys.contains("no_stall_check"));
  EXPECT_FALSE(keys.contains("help"));
  EXPECT_FALSE(keys.contains("command")) << "reserved for the command itself";
  EXPECT_EQ(VariableOfKey("num_proc"), "HVDRAY_NUM_PROC");
}

TEST(OptionTableTest, ChoicesStandInTheOrderOfTheirEnums) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(ChoicesOf(RowOf(OptionId::kTagOutput)), (Words{"rank", "host", "none"}));
  EXPECT_EQ(ChoicesOf(RowOf(OptionId::kColor)), (Words{"auto", "always", "never"}));
  EXPECT_EQ(ChoicesOf(RowOf(OptionId::kPrintPlan)), (Words{"text", "json"}));
  EXPECT_EQ(ChoicesOf(RowOf(OptionId::kPrintConfig)), (Words{"text", "json"}));
}

TEST(OptionTableTest, HelpShowsTheDefaultThatTheMemberHas) {
  EXPECT_EQ(DefaultText(RowOf(OptionId::kGrace)), "30");
  EXPECT_EQ(DefaultText(RowOf(OptionId::kTimeout)), "none");
  EXPECT_EQ(DefaultText(RowOf(OptionId::kTagOutput)), "rank");
  EXPECT_EQ(DefaultText(RowOf(OptionId::kSshConnections)), "32");
  EXPECT_EQ(DefaultText(RowOf(OptionId::kHeartbeatTimeout)), "15; elastic: 5");
  EXPECT_EQ(DefaultText(RowOf(OptionId::kPeerCheck)), "");
  EXPECT_EQ(DefaultText(RowOf(OptionId::kSshPort)), "ssh's own");
}

TEST(OptionTableTest, ADefaultInWordsIsTheMembersWhereItIsAValue) {
  const JobSpec usual;
  size_t count = 0;
  for (const OptionRow& row : OptionTable()) {
    if (row.default_text.empty()) continue;
    VisitMember(row, [&](const auto& member) {
      if (member.read() == nullptr) return;
      const auto value = member.read()({{std::string(row.default_text)}, "flag", "flag"});
      if (row.type == OptionType::kList || !value.ok()) return;
      EXPECT_TRUE(*value == *member.In(usual)) << row.name;
      ++count;
    });
  }
  EXPECT_EQ(count, 2u) << "--stdin and --ray-log-limit";
}

TEST(OptionTableTest, AMemberWhoseTypeSaysTooLittleHasItsOwnReader) {
  for (const OptionRow& row : OptionTable()) {
    if (row.is_settled_later) continue;
    VisitMember(row, [&row]<typename T>(const SpecMember<T>& member) {
      constexpr bool is_unclear =
          std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>> ||
          std::is_same_v<T, std::vector<SyncWord>> || std::is_same_v<T, std::vector<HostSlots>>;
      EXPECT_TRUE(!is_unclear || member.read() != nullptr) << row.name;
    });
  }
}

TEST(OptionTableTest, RowsAreWhole) {
  std::map<std::string_view, OptionId> variables;
  for (const OptionRow& row : OptionTable()) {
    EXPECT_FALSE(row.help.empty()) << row.name;
    const bool is_variable = row.group == OptionGroup::kDeveloper;
    EXPECT_EQ(Spellings(row).empty(), is_variable) << row.name;
    const bool has_visible =
        std::any_of(AllSpellings().begin(), AllSpellings().end(),
                    [&row](const Spelling& s) { return s.row == &row && !s.is_hidden; });
    EXPECT_NE(has_visible, is_variable) << row.name;
    const bool takes_value = row.type != OptionType::kAction && row.type != OptionType::kFlag;
    EXPECT_EQ(takes_value, !row.value_name.empty()) << row.name;
    EXPECT_EQ(!row.negations.empty() && row.type != OptionType::kFlag, false) << row.name;
    EXPECT_EQ(row.type == OptionType::kInt || row.type == OptionType::kIntPair, row.min < row.max)
        << row.name;
    if (row.config_key.empty()) continue;
    EXPECT_FALSE(row.worker_variable.empty()) << row.name;
    EXPECT_TRUE(variables.emplace(row.worker_variable, row.id).second) << row.name;
  }
  EXPECT_EQ(variables.size(), 23u) << "tunables of Horovod's config file";
}

}  // namespace
}  // namespace hvdray
