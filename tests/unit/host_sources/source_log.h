// SPDX-License-Identifier: Apache-2.0
// Writes down what a host source says.
#ifndef HVDRAY_TESTS_UNIT_HOST_SOURCES_SOURCE_LOG_H_
#define HVDRAY_TESTS_UNIT_HOST_SOURCES_SOURCE_LOG_H_

#include <fmt/format.h>

#include <string>
#include <vector>

#include "launcher/engine/host_source.h"

namespace hvdray {

struct SourceLog {
  std::vector<std::string> lists;  ///< "a:2 b:1"
  std::vector<Status> failures;
  bool is_final = false;

  HostSource::Handlers handlers() {
    return {[this](const std::vector<HostSlots>& hosts, bool final) {
              std::string text;
              for (const HostSlots& host : hosts) {
                text += fmt::format("{}{}:{}", text.empty() ? "" : " ", host.host, host.slots);
              }
              lists.push_back(text);
              is_final = final;
            },
            [this](Status why) { failures.push_back(std::move(why)); }};
  }
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_HOST_SOURCES_SOURCE_LOG_H_
