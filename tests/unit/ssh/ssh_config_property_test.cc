// SPDX-License-Identifier: Apache-2.0
// What ssh itself has to say about configurations that nobody thought of: sharing its answers among
// hosts changes none of them. Nothing is connected to.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "cluster/ssh/ssh_config_source.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

const std::vector<std::string> kHosts = {"n1",  "n2", "n12", "a",   "b.x",
                                         "a.x", "N1", "::1", "n-1", "10.0.0.1"};
/// Heads of blocks; INC is an included file.
const std::vector<std::string> kHeads = {
    "Host *",        "Host n*",      "Host n1",         "Host n? !n2", "host=a b.x", "Host *.x",
    "Host n1 # n2",  "Host 10.*",    "HOST N1",         "Host !n1",    "Match all",  "Host * !*.x",
    "Include INC",   "Include INC",  "  Host\t a\r",    "Host = *1",   "Host n1,n2", "Host ::1",
    "Include INC2*", "Host [n]1 n2", "Host n**1 ?????*"};
const std::vector<std::string> kRareHeads = {"Match host n1",
                                             "Match originalhost a*",
                                             "Match exec \"test %h = n1\"",
                                             "\"Host\" n1",
                                             "Host \"n1\" a",
                                             "Match user eve",
                                             "CanonicalizeHostname yes",
                                             "Host n\\1",
                                             "Include \"INC\"",
                                             "Match !host a",
                                             "Nonsense",
                                             "Host"};
const std::vector<std::string> kValues = {
    "Port 7",           "Port=8",           "User eve",           "User \"e v\"",
    "HostName n1",      "HostName 9.9.9.9", "HostName A.x",       "HostKeyAlias n1",
    "IdentityFile ~/k", "IdentityFile /%d", "IdentitiesOnly yes", "UserKnownHostsFile /kh ~/kh2",
    "ConnectTimeout 5", "BatchMode yes",    "ControlPath ~/%C",   "StrictHostKeyChecking no",
    "ProxyJump n1",     "ProxyJump none",   "SetEnv A=n1",        "ControlPath ~/c-%r@%h:%p",
    "LogLevel QUIET",   "LogLevel DEBUG3",  "IdentityAgent none", "ProxyCommand nc %h %p"};
const std::vector<std::string> kRareValues = {
    "HostName %h.x", "HostKeyAlias %n",     "IdentityFile ~/%h", "UserKnownHostsFile ~/%k",
    "User %u",       "HostName \"n1\"",     "HostName n1 # n2",  "IdentityFile ~/%%h",
    "Port x",        "IdentityFile ~/%r%p", "HostName %%h",      "CanonicalDomains x"};

class Case {
 public:
  explicit Case(uint32_t seed) : random_(seed) {
    for (const char* name : {"INC", "INC2a", "INC2b", "config"}) {
      const std::string text = Grow(name);
      std::ofstream(directory_ / name) << text;
      words_ += fmt::format("--- {}\n{}", name, text);
    }
    overrides_.config_file = directory_ / "config";
    if (random_() % 4 == 0) overrides_.port = 99;
    if (random_() % 4 == 0) overrides_.identity_file = "/n1";
    for (uint32_t i = 0; i < 8; ++i) {
      SshTarget target = {.host = Any(kHosts)};
      if (random_() % 8 == 0) target.user = "eve";
      if (random_() % 8 == 0) target.port = 5;
      targets_.push_back(target);
    }
  }

  Result<SshSettings> AskedAlone(const SshTarget& target) {
    HVDRAY_ASSIGN_OR_RETURN(const std::optional<SshGOutput> output,
                            RunSshG("ssh", target, overrides_, /*is_verbose=*/false, Limit()));
    if (!output) return Status(ErrorCode::kFileUnreadable, "no ssh client");
    return SettingsFromLines(output->lines, target, overrides_, user_);
  }
  SshConfigSource Source() { return {overrides_, user_, "ssh"}; }
  static SshLimit Limit() { return SshLimit::In(std::chrono::seconds(60)); }

  const std::vector<SshTarget>& targets() const { return targets_; }
  const std::string& words() const { return words_; }

 private:
  const std::string& Any(const std::vector<std::string>& words) {
    return words[random_() % words.size()];
  }
  std::string Grow(const std::string& name) {
    std::string text;
    const bool is_plain = random_() % 4 != 0;
    for (uint32_t blocks = random_() % 4; blocks > 0; --blocks) {
      std::string head = Any(is_plain || random_() % 3 != 0 ? kHeads : kRareHeads);
      // Only the main file includes, so that nothing includes itself.
      const size_t include = head.find("INC");
      if (include != std::string::npos && name != "config") continue;
      if (include != std::string::npos) head.insert(include, directory_.path() + "/");
      text += head + "\n";
      for (uint32_t lines = random_() % 3; lines > 0; --lines) {
        text += "  " + Any(is_plain || random_() % 4 != 0 ? kValues : kRareValues) + "\n";
      }
    }
    return text;
  }

  std::mt19937 random_;
  TempDirectory directory_;
  SshOverrides overrides_;
  const SshUser user_ = {"me", "/nowhere", ""};
  std::vector<SshTarget> targets_;
  std::string words_;
};

/// HVDRAY_SSH_CONFIG_SEEDS=FIRST:COUNT looks at others, or more of them.
std::pair<uint32_t, uint32_t> Seeds() {
  const char* given = std::getenv("HVDRAY_SSH_CONFIG_SEEDS");
  unsigned first = 1;
  unsigned count = 25;
  if (given != nullptr) (void)std::sscanf(given, "%u:%u", &first, &count);
  return {first, count};
}

TEST(SshConfigPropertyTest, EachHostGetsWhatSshSaysOfItAlone) {
  const auto [first, count] = Seeds();
  int runs = 0;
  int hosts = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    Case test(seed);
    SshConfigSource source = test.Source();
    for (const SshTarget& target : test.targets()) {
      const Result<SshSettings> alone = test.AskedAlone(target);
      const Result<SshSettings> shared = source.Settings(target, Case::Limit());
      const std::string where = fmt::format("seed {}, {}@{}:{}\n{}", seed, target.user, target.host,
                                            target.port, test.words());
      ASSERT_EQ(shared.status().ToString(), alone.status().ToString()) << where;
      ASSERT_TRUE(!alone.ok() || *shared == *alone) << where;
    }
    hosts += static_cast<int>(test.targets().size());
    runs += source.run_count();
  }
  std::printf("%d hosts, ssh was run %d times\n", hosts, runs);
  EXPECT_TRUE(count < 20 || runs < hosts * 9 / 10) << "nothing was shared, so nothing was shown";
}

TEST(SshConfigPropertyTest, HostsThatAskAtTheSameTimeGetTheirOwnToo) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    Case test(seed);
    SshConfigSource source = test.Source();
    std::vector<std::optional<Result<SshSettings>>> found(test.targets().size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < found.size(); ++i) {
      threads.emplace_back(
          [&, i] { found[i] = source.Settings(test.targets()[i], Case::Limit()); });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < found.size(); ++i) {
      const Result<SshSettings> alone = test.AskedAlone(test.targets()[i]);
      ASSERT_EQ(found[i]->status().ToString(), alone.status().ToString()) << "seed " << seed;
      EXPECT_TRUE(!alone.ok() || **found[i] == *alone) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace hvdray
