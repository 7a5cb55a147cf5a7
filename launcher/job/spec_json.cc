// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/spec_json.h"

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/json_fields.h"
#include "launcher/job/spec_fields.h"

namespace hvdray {
namespace {

constexpr char kSchema[] = "hvdray.spec/1";

// The words of each choice, in the order of its enum.
template <typename Enum>
constexpr std::string_view kWords[] = {"?"};
template <>
constexpr std::string_view kWords<TagOutput>[] = {"rank", "host", "none"};
template <>
constexpr std::string_view kWords<ColorMode>[] = {"auto", "always", "never"};
template <>
constexpr std::string_view kWords<SshTransport>[] = {"auto", "libssh2", "openssh"};
template <>
constexpr std::string_view kWords<HostKeyCheck>[] = {"accept-new", "yes", "no"};
template <>
constexpr std::string_view kWords<PlanFormat>[] = {"text", "json"};
template <>
constexpr auto kWords<ElasticMode> = kElasticModeWords;
template <>
constexpr auto kWords<JoinMode> = kJoinModeWords;
template <>
constexpr auto kWords<SuccessRule> = kSuccessRuleWords;
template <>
constexpr std::string_view kWords<RayStrategy>[] = {"auto", "pack", "spread", "strict-pack",
                                                    "strict-spread"};
template <>
constexpr std::string_view kWords<JobBackend>[] = {"auto", "ray", "ssh"};
template <>
constexpr std::string_view kWords<HorovodChoice>[] = {"installed", "builtin"};
template <>
constexpr std::string_view kWords<GpuChoice>[] = {"host", "rank"};

// What a setting may hold beside plain values and lists of them.
template <typename Io>
void Parts(Io& io, FieldsOf<Io, std::pair<int, int>> range) {
  io.Exactly(2);
  io.Int(0, range.first, kAnyOf<int>);
  io.Int(1, range.second, kAnyOf<int>);
}
template <typename Io>
void Parts(Io& io, FieldsOf<Io, SyncWord> word) {
  io.Bytes("folder", word.directory);
  if (!io.Has("target", word.has_target)) return;
  io.Bytes("target", word.target);
  if constexpr (!Io::kIsWriter) word.has_target = true;
}
template <typename Io>
void Parts(Io& io, FieldsOf<Io, HostSlots> host) {
  io.Bytes("host", host.host);
  io.Int("slots", host.slots, kAnyOf<int>);
  if (io.Has("address", !host.address.name.empty())) io.Bytes("address", host.address.name);
  if (io.Has("user", !host.address.user.empty())) io.Bytes("user", host.address.user);
  if (io.Has("port", host.address.port != 0)) {
    io.Int("port", host.address.port, kAnyOf<uint16_t>);
  }
}

template <typename Io, typename T>
void Value(Io& io, FieldKey key, T& value) {
  using Plain = std::remove_const_t<T>;
  const auto element = [](auto& item, auto& part) { Value(item, {}, part); };
  if constexpr (std::is_same_v<Plain, bool>) {
    io.Flag(key, value);
  } else if constexpr (std::is_same_v<Plain, double>) {
    io.Number(key, value);
  } else if constexpr (std::is_same_v<Plain, std::string>) {
    io.Bytes(key, value);
  } else if constexpr (std::is_same_v<Plain, Duration>) {
    io.Time(key, value, kAnyOf<Duration>);
  } else if constexpr (std::is_enum_v<Plain>) {
    io.Choice(key, value, kWords<Plain>);
  } else if constexpr (std::is_integral_v<Plain>) {
    io.Int(key, value, kAnyOf<Plain>);
  } else if constexpr (requires { value.has_value(); }) {
    io.Maybe(key, value, element);
  } else if constexpr (requires { value.size(); }) {
    io.List(key, value, kAnyCount, element);
  } else {
    Parts(io, value);  // an element
  }
}

using Tunables = decltype(JobSpec::tunables);

/// Takes the fields one by one.
struct Writer {
  template <typename T>
  void operator()(const char* name, OptionId /*option*/, const Setting<T>& setting) {
    if (*setting != DefaultOf<T>(name)) Value(settings, name, *setting);
    if (!setting.is_default()) origins.Bytes(name, setting.origin());
  }
  void operator()(const char* name, OptionId /*option*/, const Tunables& tunables) {
    if (tunables.empty()) return;
    settings.Table(name, tunables, [](auto& io, auto& setting) { io.Bytes({}, *setting); });
    origins.Table(name, tunables, [](auto& io, auto& setting) { io.Bytes({}, setting.origin()); });
  }

  FieldWriter& settings;
  FieldWriter& origins;

 private:
  template <typename T>
  static const T& DefaultOf(std::string_view wanted) {
    static const JobSpec spec;
    const T* found = nullptr;
    ForEachSpecField(spec, [&](std::string_view name, OptionId /*option*/, const auto& field) {
      if constexpr (std::is_same_v<decltype(field), const Setting<T>&>) {
        if (name == wanted) found = &*field;
      }
    });
    return *found;
  }
};

struct Reader {
  template <typename T>
  void operator()(const char* name, OptionId /*option*/, Setting<T>& setting) {
    T value = *setting;
    std::string origin = setting.origin();
    Value(settings, name, value);
    origins.Bytes(name, origin);
    setting.Set(std::move(value), std::move(origin));
  }
  void operator()(const char* name, OptionId /*option*/, Tunables& tunables) {
    settings.Table(name, tunables, [](auto& io, auto& setting) {
      std::string value;
      io.Bytes({}, value);
      setting.Set(std::move(value), "default");
    });
    origins.Object(name, tunables, [](auto& io, auto& values) {
      for (auto& [variable, setting] : values) {
        std::string origin = setting.origin();
        io.Bytes(variable.c_str(), origin);
        setting.Set(*setting, std::move(origin));
      }
    });
  }

  FieldReader& settings;
  FieldReader& origins;
};

}  // namespace

std::string SpecToJson(const JobSpec& spec) {
  std::string origins;
  const std::string settings = WriteFields([&](FieldWriter& values) {
    FieldWriter sources(origins);
    ForEachSpecField(spec, Writer{values, sources});
  });
  return WriteFields([&](FieldWriter& io) {
    io.Text("schema", kSchema);
    io.Raw("settings", settings);
    io.Raw("origins", origins);
  });
}

Result<JobSpec> SpecFromJson(const Json& json) {
  const auto schema = json.is_object() ? json.find("schema") : json.end();
  if (schema == json.end() || *schema != kSchema) {
    return Status(ErrorCode::kProtocolError, fmt::format("the settings are not {}", kSchema));
  }
  const Json none = Json::object();
  const auto object = [&](const char* key) -> const Json& {
    const auto found = json.find(key);
    return found != json.end() && found->is_object() ? *found : none;
  };
  constexpr auto kMissing = FieldReader::Missing::kKeepsDefault;
  JobSpec spec;
  Status status;
  FieldReader settings(object("settings"), kMissing, status);
  FieldReader origins(object("origins"), kMissing, status);
  ForEachSpecField(spec, Reader{settings, origins});
  if (!status.ok()) return status;
  return spec;
}

}  // namespace hvdray
