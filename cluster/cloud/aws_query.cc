// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/aws_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "base/base64.h"
#include "base/digest.h"
#include "base/text.h"

namespace hvdray {
namespace {

/// A list whose name in the query API is not its name in the SDKs. `parent`: the key of the list or
/// object that it is in; empty at the top.
struct QueryName {
  std::string_view parent, key, name;
};

constexpr QueryName kQueryNames[] = {
    {"", "BlockDeviceMappings", "BlockDeviceMapping"},
    {"", "ElasticInferenceAccelerators", "ElasticInferenceAccelerator"},
    {"", "Ipv6Addresses", "Ipv6Address"},
    {"", "LicenseSpecifications", "LicenseSpecification"},
    {"", "NetworkInterfaces", "NetworkInterface"},
    {"", "SecondaryInterfaces", "SecondaryInterface"},
    {"", "SecurityGroupIds", "SecurityGroupId"},
    {"", "SecurityGroups", "SecurityGroup"},
    {"", "TagSpecifications", "TagSpecification"},
    {"IpPermissions", "UserIdGroupPairs", "Groups"},
    {"Monitoring", "MetricCategoryIds", "MetricCategoryId"},
    {"NetworkInterfaces", "Groups", "SecurityGroupId"},
    {"NetworkInterfaces", "Ipv4Prefixes", "Ipv4Prefix"},
    {"NetworkInterfaces", "Ipv6Prefixes", "Ipv6Prefix"},
    {"SecondaryInterfaces", "PrivateIpAddresses", "PrivateIpAddress"},
    {"TagSpecifications", "Tags", "Tag"},
};

/// The parameters of RunInstances; SubnetIds is Ray's own.
constexpr std::string_view kNodeConfigKeys[] = {
    "AdditionalInfo",
    "BlockDeviceMappings",
    "CapacityReservationSpecification",
    "ClientToken",
    "CpuOptions",
    "CreditSpecification",
    "DisableApiStop",
    "DisableApiTermination",
    "DryRun",
    "EbsOptimized",
    "ElasticGpuSpecification",
    "ElasticInferenceAccelerators",
    "EnablePrimaryIpv6",
    "EnclaveOptions",
    "HibernationOptions",
    "IamInstanceProfile",
    "ImageId",
    "InstanceInitiatedShutdownBehavior",
    "InstanceMarketOptions",
    "InstanceType",
    "Ipv6AddressCount",
    "Ipv6Addresses",
    "KernelId",
    "KeyName",
    "LaunchTemplate",
    "LicenseSpecifications",
    "MaintenanceOptions",
    "MaxCount",
    "MetadataOptions",
    "MinCount",
    "Monitoring",
    "NetworkInterfaces",
    "NetworkPerformanceOptions",
    "Operator",
    "Placement",
    "PrivateDnsNameOptions",
    "PrivateIpAddress",
    "RamdiskId",
    "SecondaryInterfaces",
    "SecurityGroupIds",
    "SecurityGroups",
    "SubnetId",
    "SubnetIds",
    "TagSpecifications",
    "UserData",
};

std::string_view QueryNameOf(std::string_view parent, std::string_view key) {
  for (const QueryName& row : kQueryNames) {
    if (row.parent == parent && row.key == key) return row.name;
  }
  return key;
}

std::string ScalarText(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

/// `parent`: the key that led here, which names what is below it.
void AddValue(AwsForm& form, const std::string& name, std::string_view parent, const Json& value) {
  if (value.is_null()) return;
  if (value.is_array()) {
    size_t number = 0;
    for (const Json& item : value)
      AddValue(form, fmt::format("{}.{}", name, ++number), parent, item);
    return;
  }
  if (!value.is_object()) {
    form.emplace_back(name, ScalarText(value));
    return;
  }
  for (const auto& [key, part] : value.items()) {
    AddValue(form, fmt::format("{}.{}", name, QueryNameOf(parent, key)), key, part);
  }
}

/// The Unicode code point at the start of `text`, which is well-formed UTF-8 of `length` bytes.
uint32_t CodePoint(std::string_view text, size_t length) {
  constexpr uint32_t kFirstMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t code = static_cast<unsigned char>(text[0]) & kFirstMask[length];
  for (size_t i = 1; i < length; ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  return code;
}

/// In ASCII: everything else as \uXXXX, beyond the first plane as two surrogates.
std::string PythonText(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = std::max<size_t>(Utf8Length(text), 1);
    const uint32_t code = Utf8Length(text) == 0 ? 0xFFFD : CodePoint(text, length);
    text.remove_prefix(length);
    constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
    constexpr std::string_view kNames = "\"\\bfnrt";
    const size_t named =
        code < 0x80 ? kNamed.find(static_cast<char>(code)) : std::string_view::npos;
    if (named != std::string_view::npos) {
      out += '\\';
      out += kNames[named];
    } else if (code >= 0x20 && code < 0x7F) {
      out += static_cast<char>(code);
    } else if (code < 0x10000) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else {
      const uint32_t above = code - 0x10000;
      fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10),
                     0xDC00 + (above & 0x3FF));
    }
  }
  return out + '"';
}

std::string PythonNumber(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string Base32Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
  std::string out;
  uint32_t buffer = 0;
  int bits = 0;
  for (const char byte : bytes) {
    buffer = (buffer << 8) | static_cast<unsigned char>(byte);
    for (bits += 8; bits >= 5; bits -= 5) out += kDigits[(buffer >> (bits - 5)) & 31];
  }
  if (bits > 0) out += kDigits[(buffer << (5 - bits)) & 31];
  return out;
}

}  // namespace

std::string EncodeAwsForm(const AwsForm& form) {
  std::string out;
  const auto add = [&out](std::string_view text) {
    for (const char c : text) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~';
      if (is_plain) {
        out += c;
      } else {
        fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
      }
    }
  };
  for (const auto& [name, value] : form) {
    if (!out.empty()) out += '&';
    add(name);
    out += '=';
    add(value);
  }
  return out;
}

void AddAwsList(AwsForm& form, std::string_view name, const std::vector<std::string>& values) {
  size_t number = 0;
  for (const std::string& value : values) {
    form.emplace_back(fmt::format("{}.{}", name, ++number), value);
  }
}

void AddAwsFilter(AwsForm& form, std::string_view name, const std::vector<std::string>& values) {
  const auto is_filter = [](const auto& field) {
    return field.first.starts_with("Filter.") && field.first.ends_with(".Name");
  };
  const auto number = 1 + std::count_if(form.begin(), form.end(), is_filter);
  form.emplace_back(fmt::format("Filter.{}.Name", number), name);
  AddAwsList(form, fmt::format("Filter.{}.Value", number), values);
}

Status CheckAwsNodeConfig(const std::vector<YamlNode::Entry>& node_config) {
  for (const YamlNode::Entry& entry : node_config) {
    if (std::ranges::find(kNodeConfigKeys, entry.key) != std::end(kNodeConfigKeys)) continue;
    const std::string nearest = Nearest(entry.key.substr(0, 80), kNodeConfigKeys);
    if (nearest.empty()) continue;
    return {
        ErrorCode::kSpecInvalid,
        fmt::format("{}: RunInstances has no parameter '{}'", entry.where, ShownText(entry.key)),
        fmt::format("did you mean {}?", nearest)};
  }
  return {};
}

void AddAwsObject(AwsForm& form, const Json& object) {
  for (const auto& [key, value] : object.items()) {
    if (key == "UserData" && value.is_string()) {
      form.emplace_back(key, EncodeBase64(value.get<std::string>()));
      continue;
    }
    AddValue(form, std::string(QueryNameOf("", key)), key, value);
  }
}

std::string PythonJson(const Json& value) {
  if (value.is_array()) {
    std::vector<std::string> items;
    items.reserve(value.size());
    for (const Json& item : value) items.push_back(PythonJson(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (value.is_object()) {
    // Python orders keys by code point, which is the order of their UTF-8 bytes.
    std::vector<std::pair<std::string, std::string>> items;
    items.reserve(value.size());
    for (const auto& [key, part] : value.items()) items.emplace_back(key, PythonJson(part));
    std::ranges::sort(items);
    std::vector<std::string> texts;
    texts.reserve(items.size());
    for (const auto& [key, part] : items) texts.push_back(PythonText(key) + ": " + part);
    return fmt::format("{{{}}}", fmt::join(texts, ", "));
  }
  if (value.is_string()) return PythonText(value.get_ref<const std::string&>());
  if (value.is_number_float()) return PythonNumber(value.get<double>());
  return DumpJson(value);
}

std::string RayLaunchHash(const Json& node_config, const Json& auth) {
  return Base32Hex(Sha256(PythonJson(Json::array({node_config, auth}))));
}

}  // namespace hvdray
