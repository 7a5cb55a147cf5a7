// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/file_pages.h"

#include <fmt/format.h>

#include "launcher/job/help.h"
#include "launcher/job/run_schema.h"

namespace hvdray {
namespace {

/// "string, number or boolean" for a property that says no more.
std::string TypeWords(const Json& types) {
  if (types.is_string()) return types.get<std::string>();
  std::string words;
  for (size_t i = 0; i < types.size(); ++i) {
    words += (i == 0 ? "" : i + 1 == types.size() ? " or " : ", ") + types[i].get<std::string>();
  }
  return words;
}

/// Each key with its path from the top of the file: "provider.type". NAME stands for any name.
void AppendKeys(const Json& schema, const std::string& prefix, std::string& page) {
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, entry] : properties.items()) {
    std::string text = entry.value("description", "");
    if (text.empty()) text = TypeWords(entry.value("type", Json("any value")));
    page += fmt::format(".TP\n.B {}{}\n{}", prefix, key, RoffText(text));
    AppendKeys(entry, fmt::format("{}{}.", prefix, key), page);
    const auto others = entry.find("additionalProperties");
    if (others == entry.end() || !others->is_object()) continue;
    AppendKeys(*others, fmt::format("{}{}.NAME.", prefix, key), page);
  }
}

std::string FilePage(std::string_view name, std::string_view what, std::string_view text,
                     const Json& schema, std::string_view release) {
  std::string page =
      fmt::format("{}.SH NAME\nhvdray\\-{} \\- {}\n.SH DESCRIPTION\n{}.SH KEYS\n",
                  ManTitle(fmt::format("hvdray-{}", name), 5, release), name, what, RoffText(text));
  AppendKeys(schema, "", page);
  return page;
}

}  // namespace

std::string JobFilePage(std::string_view release) {
  return FilePage("job", "job files",
                  "A job file is YAML for hvdray run -f FILE. Its keys are the long options, with "
                  "'_' for '-'; flags win. An unknown key, or one given twice, is an error. "
                  "Durations are in seconds or have a unit: 0.5, 200ms, 2m.",
                  RunSectionSchema(FileKind::kJob), release) +
         ".SH SEE ALSO\nhvdray\\-run(1)\n";
}

std::string ClusterFilePage(const Json& schema, std::string_view release) {
  return FilePage("cluster", "cluster files",
                  "A cluster file is the YAML that ray up takes, with a section for hvdray. hvdray "
                  "cluster config checks one.",
                  schema, release) +
         ".SH SEE ALSO\nhvdray\\-up(1),\nhvdray\\-cluster(1),\nhvdray\\-job(5)\n";
}

}  // namespace hvdray
