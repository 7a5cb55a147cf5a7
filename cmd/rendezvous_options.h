// SPDX-License-Identifier: Apache-2.0
// The words of `hvdray rendezvous`. Pure: its pages are made of this declaration.
#ifndef HVDRAY_CMD_RENDEZVOUS_OPTIONS_H_
#define HVDRAY_CMD_RENDEZVOUS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace hvdray {

struct RendezvousWords {
  std::string address = "127.0.0.1";
  uint16_t port = 0;
  std::string hosts;
  std::string allow;
  double kv_hold_s = 1;
  bool no_peer_check = false;
};

/// Names the command, says what it does, and declares its words.
void DeclareRendezvous(CLI::App& app, RendezvousWords& words);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RENDEZVOUS_OPTIONS_H_
