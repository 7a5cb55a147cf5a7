// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/spec_json.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "launcher/job/option_table.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

// Stands for an initialiser of any field.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <typename T, typename... Fields>
constexpr size_t FieldCount() {
  if constexpr (requires { T{Fields{}..., Anything{}}; }) {
    return FieldCount<T, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}

/// Calls `visit(key, field)` for all that a spec's JSON holds.
template <typename Spec, typename Visitor>
void ForEachField(Spec& spec, Visitor&& visit) {
  for (const OptionRow& row : AllOptions()) {
    VisitMember(row, [&](const auto& member) { visit(OptionKeyOf(row.name), member.In(spec)); });
  }
  visit("command", spec.command);
  visit("ssh_user", spec.ssh_user);
  visit("ssh_proxy_command", spec.ssh_proxy_command);
  visit("tunables", spec.tunables);
}

/// Gives every field a value that it does not have by default.
class Filler {
 public:
  explicit Filler(unsigned seed) : random_(seed) {}

  template <typename T>
  void operator()(const std::string& name, Setting<T>& setting) {
    ++count;
    const T before = *setting;
    T value = before;
    while (value == before) Fill(&value);
    setting.Set(std::move(value), "flag --" + name);
  }
  void operator()(const std::string& /*name*/,
                  std::map<std::string, Setting<std::string>>& tunables) {
    ++count;
    for (int i = 0; i < 3; ++i) {
      std::string value;
      Fill(&value);
      tunables["HOROVOD_" + std::to_string(i)].Set(value, "config.yaml:" + std::to_string(i));
    }
  }
  size_t count = 0;

 private:
  unsigned Draw(unsigned below) { return random_() % below; }
  void Fill(bool* value) { *value = Draw(2) == 1; }
  void Fill(int* value) { *value = static_cast<int>(random_()); }
  void Fill(uint16_t* value) { *value = static_cast<uint16_t>(random_()); }
  void Fill(double* value) { *value = Draw(1000) / 7.0; }
  void Fill(Duration* value) { *value = Duration(static_cast<int64_t>(random_()) * 1'000'003); }
  void Fill(std::string* value) {
    *value = "";
    for (unsigned i = Draw(9) + 1; i > 0; --i) *value += static_cast<char>(Draw(256));
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Fill(Enum* value) { *value = static_cast<Enum>(Draw(2)); }
  template <typename T>
  void Fill(std::optional<T>* value) {
    if (Draw(4) == 0) return value->reset();
    Fill(&value->emplace());
  }
  template <typename T>
  void Fill(std::vector<T>* value) {
    value->resize(Draw(4) + 1);
    for (T& item : *value) Fill(&item);
  }
  void Fill(std::pair<int, int>* value) { *value = {Draw(100), Draw(100)}; }
  void Fill(SyncWord* value) {
    Fill(&value->directory);
    value->has_target = Draw(2) == 1;
    value->target.clear();
    if (value->has_target) Fill(&value->target);
  }
  void Fill(HostSlots* value) {
    Fill(&value->host);
    value->slots = static_cast<int>(Draw(9));
    Fill(&value->address.name);
    Fill(&value->address.user);
    Fill(&value->address.port);
  }

  std::mt19937 random_;
};

/// "name: value (origin)" of each field, for comparing.
class Lister {
 public:
  template <typename T>
  void operator()(const std::string& name, const Setting<T>& setting) {
    list.emplace_back(name, setting.origin());
    const bool is_same = *setting == *Other<Setting<T>>(name);
    EXPECT_TRUE(is_same) << name;
    EXPECT_EQ(setting.origin(), Other<Setting<T>>(name).origin()) << name;
  }
  void operator()(const std::string& name,
                  const std::map<std::string, Setting<std::string>>& tunables) {
    list.emplace_back(name, "");
    ASSERT_EQ(tunables.size(), other.tunables.size());
    for (const auto& [variable, setting] : tunables) {
      EXPECT_EQ(*setting, *other.tunables.at(variable));
      EXPECT_EQ(setting.origin(), other.tunables.at(variable).origin());
    }
  }
  explicit Lister(const JobSpec& spec) : other(spec) {}
  const JobSpec& other;
  std::vector<std::pair<std::string, std::string>> list;

 private:
  template <typename Wanted>
  const Wanted& Other(std::string_view wanted) {
    const Wanted* found = nullptr;
    ForEachField(other, [&](const std::string& name, const auto& field) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, Wanted>) {
        if (name == wanted) found = &field;
      }
    });
    return *found;
  }
};

TEST(SpecJsonTest, EveryFieldOfTheStructsIsAnOptionsOrHasItsOwnLine) {
  const JobSpec spec;
  std::set<std::string> names;
  size_t visits = 0;
  ForEachField(spec, [&](const std::string& name, const auto& /*field*/) {
    ++visits;
    names.insert(name);
  });
  EXPECT_EQ(names.size(), visits);
  // The Ray part is one field of the whole.
  EXPECT_EQ(visits, FieldCount<JobSpec>() - 1 + FieldCount<RaySpec>());
}

TEST(SpecJsonTest, EveryFieldComesBackWithItsOrigin) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    JobSpec spec;
    Filler filler(seed);
    ForEachField(spec, filler);
    // As text, since that is how it travels.
    const Result<Json> json = ParseJson(SpecToJson(spec));
    ASSERT_TRUE(json.ok());
    const Result<JobSpec> read = SpecFromJson(*json);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    Lister lister(*read);
    ForEachField(std::as_const(spec), lister);
    EXPECT_EQ(lister.list.size(), filler.count);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SpecJsonTest, EveryWordOfEveryChoiceComesBack) {
  const auto check = [](auto JobSpec::*field, int count) {
    for (int i = 0; i < count; ++i) {
      JobSpec spec;
      using T = std::remove_cvref_t<decltype(*(spec.*field))>;
      (spec.*field).Set(static_cast<T>(i), "flag");
      const Result<JobSpec> read = SpecFromJson(*ParseJson(SpecToJson(spec)));
      ASSERT_TRUE(read.ok());
      EXPECT_EQ(static_cast<int>(*((*read).*field)), i);
    }
  };
  check(&JobSpec::tag_output, 3);
  check(&JobSpec::color, 3);
  check(&JobSpec::ssh_transport, 3);
  check(&JobSpec::host_key_check, 3);
  check(&JobSpec::elastic_mode, 2);
  check(&JobSpec::join, 2);
  check(&JobSpec::success, 2);
  for (int i = 0; i < 5; ++i) {
    JobSpec spec;
    spec.ray.strategy.Set(static_cast<RayStrategy>(i), "flag");
    spec.ray.backend.Set(static_cast<JobBackend>(i % 3), "flag");
    spec.ray.gpu_choice.Set(static_cast<GpuChoice>(i % 2), "flag");
    spec.print_plan.Set(static_cast<PlanFormat>(i % 2), "flag");
    const Result<JobSpec> read = SpecFromJson(*ParseJson(SpecToJson(spec)));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read->ray.strategy, *spec.ray.strategy);
    EXPECT_EQ(*read->ray.backend, *spec.ray.backend);
    EXPECT_EQ(*read->ray.gpu_choice, *spec.ray.gpu_choice);
    EXPECT_EQ(*read->print_plan, *spec.print_plan);
  }
}

TEST(SpecJsonTest, ASpecOfDefaultsIsShort) {
  EXPECT_EQ(SpecToJson(JobSpec{}), R"({"schema":"hvdray.spec/2","settings":{},"origins":{}})");
}

TEST(SpecJsonTest, UnknownKeysArePassedOverAndMissingOnesKeepTheirDefault) {
  const Result<Json> json = ParseJson(
      R"({"schema":"hvdray.spec/2","settings":{"num_proc":4,"of_next_year":[1]},"more":{}})");
  ASSERT_TRUE(json.ok());
  const Result<JobSpec> spec = SpecFromJson(*json);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(*spec->np, 4);
  EXPECT_EQ(spec->np.origin(), "default");
  EXPECT_EQ(*spec->grace, std::chrono::seconds(30));
}

TEST(SpecJsonTest, AnotherSchemaAndValuesOfAnotherKindAreRefusedByName) {
  const auto refused = [](const std::string& text, std::string_view origin) {
    ExpectFault(text, SpecFromJson(*ParseJson(text)).status(), ErrorCode::kProtocolError, origin);
  };
  refused("[]", "");
  refused(R"({"schema":"hvdray.spec/3"})", "");
  const auto bad = [&refused](const std::string& setting, std::string_view name) {
    refused(R"({"schema":"hvdray.spec/2","settings":{)" + setting + "}}", name);
  };
  bad(R"("num_proc":"4")", "num_proc");
  bad(R"("num_proc":4000000000)", "num_proc");
  bad(R"("num_proc":18446744073709551615)", "num_proc");
  bad(R"("master_port":-1)", "master_port");
  bad(R"("grace":0.5)", "grace");
  bad(R"("command":"true")", "command");
  bad(R"("command":[1])", "command[0]");
  bad(R"("command":[{"base64":"?"}])", "command[0]");
  bad(R"("quiet":1)", "quiet");
  bad(R"("color":"red")", "color");
  bad(R"("hosts":["a:2"])", "hosts[0]");
  bad(R"("blacklist_cooldown_range":[1])", "blacklist_cooldown_range");
  bad(R"("cpus_per_slot":"1")", "cpus_per_slot");
  bad(R"("tunables":[])", "tunables");
}

}  // namespace
}  // namespace hvdray
