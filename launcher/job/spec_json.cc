// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/spec_json.h"

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/json_fields.h"
#include "launcher/job/option_table.h"

namespace hvdray {
namespace {

constexpr char kSchema[] = "hvdray.spec/2";

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

/// `words`: those of a choice, in the order of its enum.
template <typename Io, typename T>
void Value(Io& io, FieldKey key, T& value, std::span<const std::string_view> words) {
  using Plain = std::remove_const_t<T>;
  const auto element = [words](auto& item, auto& part) { Value(item, {}, part, words); };
  if constexpr (std::is_same_v<Plain, bool>) {
    io.Flag(key, value);
  } else if constexpr (std::is_same_v<Plain, double>) {
    io.Number(key, value);
  } else if constexpr (std::is_same_v<Plain, std::string>) {
    io.Bytes(key, value);
  } else if constexpr (std::is_same_v<Plain, Duration>) {
    io.Time(key, value, kAnyOf<Duration>);
  } else if constexpr (std::is_enum_v<Plain>) {
    io.Choice(key, value, words);
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
using Words = std::vector<std::string_view>;

struct Writer {
  template <typename T>
  void Put(const std::string& key, const Setting<T>& setting, const T& usual,
           const Words& words = {}) {
    if (*setting != usual) Value(settings, key.c_str(), *setting, words);
    if (!setting.is_default()) origins.Bytes(key.c_str(), setting.origin());
  }
  void Put(const Tunables& tunables) {
    if (tunables.empty()) return;
    settings.Table("tunables", tunables, [](auto& io, auto& setting) { io.Bytes({}, *setting); });
    origins.Table("tunables", tunables,
                  [](auto& io, auto& setting) { io.Bytes({}, setting.origin()); });
  }

  FieldWriter& settings;
  FieldWriter& origins;
};

struct Reader {
  template <typename T>
  void Take(const std::string& key, Setting<T>& setting, const Words& words = {}) {
    T value = *setting;
    std::string origin = setting.origin();
    Value(settings, key.c_str(), value, words);
    origins.Bytes(key.c_str(), origin);
    setting.Set(std::move(value), std::move(origin));
  }
  void Take(Tunables& tunables) {
    settings.Table("tunables", tunables, [](auto& io, auto& setting) {
      std::string value;
      io.Bytes({}, value);
      setting.Set(std::move(value), "default");
    });
    origins.Object("tunables", tunables, [](auto& io, auto& values) {
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
    Writer writer{values, sources};
    const JobSpec usual;
    for (const OptionRow& row : AllOptions()) {
      VisitMember(row, [&](const auto& member) {
        writer.Put(OptionKeyOf(row.name), member.In(spec), *member.In(usual), ChoicesOf(row));
      });
    }
    writer.Put("command", spec.command, *usual.command);
    writer.Put("ssh_user", spec.ssh_user, *usual.ssh_user);
    writer.Put("ssh_proxy_command", spec.ssh_proxy_command, *usual.ssh_proxy_command);
    writer.Put(spec.tunables);
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
  Reader reader{settings, origins};
  for (const OptionRow& row : AllOptions()) {
    VisitMember(row, [&](const auto& member) {
      reader.Take(OptionKeyOf(row.name), member.In(spec), ChoicesOf(row));
    });
  }
  reader.Take("command", spec.command);
  reader.Take("ssh_user", spec.ssh_user);
  reader.Take("ssh_proxy_command", spec.ssh_proxy_command);
  reader.Take(spec.tunables);
  if (!status.ok()) return status;
  return spec;
}

}  // namespace hvdray
