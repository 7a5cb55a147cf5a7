// SPDX-License-Identifier: Apache-2.0
// Interfaces of the hosts in tests of elastic jobs.
#ifndef HVDRAY_TESTS_UNIT_ENGINE_ELASTIC_FACTS_H_
#define HVDRAY_TESTS_UNIT_ENGINE_ELASTIC_FACTS_H_

#include <string>
#include <vector>

#include "wire/message.h"

namespace hvdray {

inline wire::InterfaceFacts Loopback() {
  wire::InterfaceFacts lo;
  lo.name = "lo";
  lo.addresses = {{"127.0.0.1", 8}};
  lo.is_up = true;
  lo.is_loopback = true;
  return lo;
}

inline wire::InterfaceFacts Network(std::string name, std::string address,
                                    bool has_default_route = false) {
  wire::InterfaceFacts facts;
  facts.name = std::move(name);
  facts.addresses = {{std::move(address), 24}};
  facts.is_up = true;
  facts.has_default_route = has_default_route;
  return facts;
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_ENGINE_ELASTIC_FACTS_H_
