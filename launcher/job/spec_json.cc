// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/spec_json.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/text.h"
#include "launcher/job/spec_fields.h"

namespace hvdray {
namespace {

constexpr char kSchema[] = "hvdray.spec/1";
constexpr size_t kMaxBytes = size_t{16} << 20;

Status WrongKind(std::string_view wanted) {
  return {ErrorCode::kProtocolError, fmt::format("must be {}", wanted)};
}

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
constexpr std::string_view kWords<ElasticMode>[] = {"horovod", "gang"};
template <>
constexpr std::string_view kWords<JoinMode>[] = {"warm", "together"};
template <>
constexpr std::string_view kWords<SuccessRule>[] = {"all", "any"};
template <>
constexpr std::string_view kWords<RayStrategy>[] = {"auto", "pack", "spread", "strict-pack",
                                                    "strict-spread"};
template <>
constexpr std::string_view kWords<Backend>[] = {"auto", "ray", "ssh"};
template <>
constexpr std::string_view kWords<GpuChoice>[] = {"host", "rank"};

template <typename T>
struct Codec;  // Json To(const T&), Status From(const Json&, T*)

template <>
struct Codec<bool> {
  static Json To(bool value) { return value; }
  static Status From(const Json& json, bool* value) {
    if (!json.is_boolean()) return WrongKind("true or false");
    *value = json.get<bool>();
    return {};
  }
};

template <typename Int>
struct IntCodec {
  static Json To(Int value) { return value; }
  static Status From(const Json& json, Int* value) {
    if (!json.is_number_integer()) return WrongKind("a whole number");
    const bool is_huge = json.is_number_unsigned() &&
                         json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    const auto number = is_huge ? std::numeric_limits<int64_t>::max() : json.get<int64_t>();
    if (is_huge || !std::in_range<Int>(number)) return WrongKind("in range");
    *value = static_cast<Int>(number);
    return {};
  }
};
template <>
struct Codec<int> : IntCodec<int> {};
template <>
struct Codec<uint16_t> : IntCodec<uint16_t> {};

template <>
struct Codec<double> {
  static Json To(double value) { return value; }
  static Status From(const Json& json, double* value) {
    if (!json.is_number()) return WrongKind("a number");
    *value = json.get<double>();
    return {};
  }
};

template <>
struct Codec<Duration> {
  static Json To(Duration value) { return value.count(); }
  static Status From(const Json& json, Duration* value) {
    int64_t nanoseconds = 0;
    HVDRAY_RETURN_IF_ERROR(IntCodec<int64_t>::From(json, &nanoseconds));
    *value = Duration(nanoseconds);
    return {};
  }
};

template <>
struct Codec<std::string> {
  static Json To(const std::string& value) { return BytesToJson(value); }
  static Status From(const Json& json, std::string* value) {
    HVDRAY_ASSIGN_OR_RETURN(*value, BytesFromJson(json));
    return {};
  }
};

template <typename Enum>
requires std::is_enum_v<Enum>
struct Codec<Enum> {
  static Json To(Enum value) {
    const auto index = static_cast<size_t>(value);
    HVDRAY_CHECK(index < std::size(kWords<Enum>));
    return kWords<Enum>[index];
  }
  static Status From(const Json& json, Enum* value) {
    if (!json.is_string()) return WrongKind("a word");
    const auto& word = json.get_ref<const std::string&>();
    for (size_t i = 0; i < std::size(kWords<Enum>); ++i) {
      if (kWords<Enum>[i] != word) continue;
      *value = static_cast<Enum>(i);
      return {};
    }
    return WrongKind("a word that this version knows");
  }
};

template <typename T>
struct Codec<std::optional<T>> {
  static Json To(const std::optional<T>& value) { return value ? Codec<T>::To(*value) : Json(); }
  static Status From(const Json& json, std::optional<T>* value) {
    value->reset();
    if (json.is_null()) return {};
    return Codec<T>::From(json, &value->emplace());
  }
};

template <typename T>
struct Codec<std::vector<T>> {
  static Json To(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(Codec<T>::To(value));
    return list;
  }
  static Status From(const Json& json, std::vector<T>* values) {
    if (!json.is_array()) return WrongKind("a list");
    values->clear();
    for (const Json& item : json)
      HVDRAY_RETURN_IF_ERROR(Codec<T>::From(item, &values->emplace_back()));
    return {};
  }
};

template <>
struct Codec<std::pair<int, int>> {
  static Json To(const std::pair<int, int>& range) {
    return Json::array({range.first, range.second});
  }
  static Status From(const Json& json, std::pair<int, int>* range) {
    if (!json.is_array() || json.size() != 2) return WrongKind("two whole numbers");
    HVDRAY_RETURN_IF_ERROR(Codec<int>::From(json[0], &range->first));
    return Codec<int>::From(json[1], &range->second);
  }
};

/// The member `key` of an object, where there is one.
template <typename T>
Status Member(const Json& object, const char* key, T* value) {
  const auto found = object.find(key);
  return found == object.end() ? Status() : Codec<T>::From(*found, value);
}

template <>
struct Codec<SyncWord> {
  static Json To(const SyncWord& word) {
    Json json = {{"folder", BytesToJson(word.directory)}};
    if (word.has_target) json["target"] = BytesToJson(word.target);
    return json;
  }
  static Status From(const Json& json, SyncWord* word) {
    if (!json.is_object()) return WrongKind("objects");
    word->has_target = json.contains("target");
    HVDRAY_RETURN_IF_ERROR(Member(json, "folder", &word->directory));
    return Member(json, "target", &word->target);
  }
};

template <>
struct Codec<HostSlots> {
  static Json To(const HostSlots& host) {
    Json json = {{"host", BytesToJson(host.host)}, {"slots", host.slots}};
    if (!host.address.name.empty()) json["address"] = BytesToJson(host.address.name);
    if (!host.address.user.empty()) json["user"] = BytesToJson(host.address.user);
    if (host.address.port != 0) json["port"] = host.address.port;
    return json;
  }
  static Status From(const Json& json, HostSlots* host) {
    if (!json.is_object()) return WrongKind("objects");
    HVDRAY_RETURN_IF_ERROR(Member(json, "host", &host->host));
    HVDRAY_RETURN_IF_ERROR(Member(json, "slots", &host->slots));
    HVDRAY_RETURN_IF_ERROR(Member(json, "address", &host->address.name));
    HVDRAY_RETURN_IF_ERROR(Member(json, "user", &host->address.user));
    return Member(json, "port", &host->address.port);
  }
};

using Tunables = decltype(JobSpec::tunables);

/// Takes the fields one by one.
class Writer {
 public:
  template <typename T>
  void operator()(const char* name, OptionId /*option*/, const Setting<T>& setting) {
    static const JobSpec default_spec;
    Json value = Codec<T>::To(*setting);
    if (value != DefaultOf(default_spec, name)) settings[name] = std::move(value);
    if (!setting.is_default()) origins[name] = BytesToJson(setting.origin());
  }
  void operator()(const char* name, OptionId /*option*/, const Tunables& tunables) {
    for (const auto& [variable, setting] : tunables) {
      settings[name][variable] = BytesToJson(*setting);
      origins[name][variable] = BytesToJson(setting.origin());
    }
  }

  Json settings = Json::object();
  Json origins = Json::object();

 private:
  static Json DefaultOf(const JobSpec& spec, std::string_view wanted) {
    Json found;
    ForEachSpecField(spec, [&](std::string_view name, OptionId /*option*/, const auto& field) {
      if constexpr (!std::is_same_v<decltype(field), const Tunables&>) {
        using T = std::remove_cvref_t<decltype(*field)>;
        if (name == wanted) found = Codec<T>::To(*field);
      }
    });
    return found;
  }
};

class Reader {
 public:
  Reader(const Json& settings, const Json& origins) : settings_(settings), origins_(origins) {}

  template <typename T>
  void operator()(const char* name, OptionId /*option*/, Setting<T>& setting) {
    const auto value = settings_.find(name);
    const auto origin = origins_.find(name);
    T read = *setting;
    std::string who = setting.origin();
    if (value != settings_.end()) Note(name, Codec<T>::From(*value, &read));
    if (origin != origins_.end()) Note(name, Codec<std::string>::From(*origin, &who));
    setting.Set(std::move(read), std::move(who));
  }
  void operator()(const char* name, OptionId /*option*/, Tunables& tunables) {
    const auto values = settings_.find(name);
    if (values == settings_.end()) return;
    if (!values->is_object()) return Note(name, WrongKind("an object"));
    const auto origins = origins_.find(name);
    for (const auto& [variable, value] : values->items()) {
      std::string text;
      std::string who = "default";
      Note(name, Codec<std::string>::From(value, &text));
      if (origins != origins_.end() && origins->is_object()) {
        Note(name, Member(*origins, variable.c_str(), &who));
      }
      tunables[variable].Set(std::move(text), std::move(who));
    }
  }
  const Status& status() const { return status_; }

 private:
  void Note(const char* name, Status status) {
    if (status_.ok()) status_ = std::move(status).WithContext(name);
  }
  const Json& settings_;
  const Json& origins_;
  Status status_;
};

}  // namespace

Json BytesToJson(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  return {{"base64", EncodeBase64(bytes)}};
}

Result<std::string> BytesFromJson(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto coded = json.is_object() ? json.find("base64") : json.end();
  if (coded == json.end() || !coded->is_string()) return WrongKind("a text");
  Result<std::string> bytes = DecodeBase64(coded->get_ref<const std::string&>(), kMaxBytes);
  if (!bytes.ok()) return std::move(bytes).status().WithCode(ErrorCode::kProtocolError);
  return bytes;
}

Json SpecToJson(const JobSpec& spec) {
  Writer writer;
  ForEachSpecField(spec, writer);
  return {{"schema", kSchema},
          {"settings", std::move(writer.settings)},
          {"origins", std::move(writer.origins)}};
}

Result<JobSpec> SpecFromJson(const Json& json) {
  static const Json none = Json::object();
  const auto schema = json.is_object() ? json.find("schema") : json.end();
  if (schema == json.end() || *schema != kSchema) {
    return Status(ErrorCode::kProtocolError, fmt::format("the settings are not {}", kSchema));
  }
  const auto settings = json.find("settings");
  const auto origins = json.find("origins");
  JobSpec spec;
  Reader reader(settings != json.end() && settings->is_object() ? *settings : none,
                origins != json.end() && origins->is_object() ? *origins : none);
  ForEachSpecField(spec, reader);
  if (!reader.status().ok()) return reader.status();
  return spec;
}

}  // namespace hvdray
