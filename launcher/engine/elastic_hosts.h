// SPDX-License-Identifier: Apache-2.0
// How the engine reaches the hosts of a job, which may come and go.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_HOSTS_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_HOSTS_H_

#include <string>

#include "base/host_slots.h"
#include "cluster/transport/transport.h"
#include "launcher/engine/host_source.h"

namespace hvdray {

/// The hosts of a transport, as they come and go. What it says of a host is reliable once
/// Transport::Start() of that host has called back.
class ElasticHosts {
 public:
  /// Called before Transport::Start() of a host; it may be known, at another address.
  virtual void AddHost(const HostSlots& host) = 0;
  /// Reached over the network.
  virtual bool IsRemote(const std::string& host) const = 0;
  /// Another machine.
  virtual bool IsElsewhere(const std::string& host) const = 0;

 protected:
  ~ElasticHosts() = default;
};

/// How a job reaches its hosts. All outlive it.
struct JobReach {
  Transport& transport;
  // An elastic job also needs:
  ElasticHosts* hosts = nullptr;
  HostSource* source = nullptr;
  ToldHosts* told = nullptr;  ///< The source, if the client tells the hosts; else null.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_HOSTS_H_
