// SPDX-License-Identifier: Apache-2.0
#include "cmd/rendezvous_options.h"

#include "cmd/cli_values.h"

namespace hvdray {

constexpr double kMaxHoldSeconds = 3600;

void DeclareRendezvous(CLI::App& app, RendezvousWords& words) {
  app.name("hvdray rendezvous");
  app.description("Serves Horovod's rendezvous for workers that something else starts.");
  app.add_option("--host,--bind", words.address, "IPv4 address to listen on")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--port", words.port, "port to listen on; 0: any free one")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("-H,--hosts", words.hosts,
                 "where the workers are: says how many members each scope has, so that values live "
                 "until all have read them (needed by Horovod before 0.23)")
      ->type_name("HOSTS");
  app.add_option("--kv-hold", words.kv_hold_s,
                 "how long a request for a key that is not there yet waits for it; 0: not at all")
      ->transform(DurationValue())
      ->check(Within(0.0, kMaxHoldSeconds))
      ->default_str("1s")
      ->type_name("DURATION");
  app.add_option("--allow", words.allow,
                 "addresses that may speak to it; needed unless it listens on loopback")
      ->type_name("CIDR,...");
  app.add_flag("--no-peer-check", words.no_peer_check,
               "on loopback, let every user of this machine speak to it");
  app.footer(
      "Prints ADDRESS and PORT on the first line of stdout, then the variables that a worker "
      "needs\n"
      "(besides its HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK, _CROSS_SIZE).\n\n"
      "  hvdray rendezvous -H a:2,b:2 --host 10.1.0.4 --allow 10.1.0.0/16");
}

}  // namespace hvdray
