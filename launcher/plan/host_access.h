// SPDX-License-Identifier: Apache-2.0
// How to reach the hosts of a job: this machine by a child process, others by SSH (a library, or
// the system's ssh) or by --launch-agent.
#ifndef HVDRAY_LAUNCHER_PLAN_HOST_ACCESS_H_
#define HVDRAY_LAUNCHER_PLAN_HOST_ACCESS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/blocking_pool.h"
#include "cluster/transport/command_shell.h"
#include "cluster/transport/local_transport.h"
#include "cluster/transport/remote_transport.h"
#include "cluster/transport/this_machine.h"
#include "launcher/engine/elastic_hosts.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/nic_select.h"
#include "launcher/job/placement.h"
#include "launcher/plan/job_ssh.h"

namespace hvdray {

/// How to reach one host.
struct HostWay {
  bool is_remote = false;     ///< Over the network, even if it is this machine.
  bool is_elsewhere = false;  ///< Another machine, or one behind a port of this one.
};

/// `is_this_machine`: AreThisMachine() of its dial_name(). Pure.
HostWay WayTo(const HostSlots& host, bool is_this_machine, const JobSpec& spec);

/// Whether this machine can look up the names of hosts: --launch-agent may have names of its own.
NameLookup LookupOf(const JobSpec& spec);

/// The transport of a job; owns the transports of its hosts. Threads: the loop's.
class HostAccess : public Transport, public ElasticHosts {
 public:
  /// `is_remote`: one for each of `hosts`. `agent_path`: resolved, for this machine. `spread`:
  /// decides whether agents listen for their neighbours' probe. `agent_arguments`: more of them.
  /// Errors: those of AgentBuilds when a
  /// host is remote.
  static Result<std::unique_ptr<HostAccess>> Open(Loop& loop, const JobSpec& spec,
                                                  const std::string& agent_path,
                                                  const std::vector<HostSlots>& hosts,
                                                  const std::vector<bool>& is_remote,
                                                  HostSpread spread,
                                                  std::vector<std::string> agent_arguments = {});
  /// The same for a job that learns its hosts one by one. Opens nothing remote before a host needs
  /// it. Errors: those of AgentBuilds when agent_path is a list.
  static Result<std::unique_ptr<HostAccess>> OpenElastic(Loop& loop, const JobSpec& spec,
                                                         const std::string& agent_path,
                                                         HostSpread spread);

  /// Does not block: looks names up in the pool. Start() reports what is wrong with a host.
  void AddHost(const HostSlots& host) override;
  /// For OpenElastic(). True while the look-up of its name runs.
  bool IsRemote(const std::string& host) const override { return WayOf(host).is_remote; }
  bool IsElsewhere(const std::string& host) const override { return WayOf(host).is_elsewhere; }

  /// `host`: given to Open() or AddHost(). Waits for the look-up of its name.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override;
  void Close() override;

 private:
  using DoneFn = std::function<void(Result<AgentStart>)>;
  /// The end of a job does not wait longer for a resolver or file system that does not answer. Jobs
  /// in the pool own all that they touch.
  static constexpr Duration kEndPatience = std::chrono::milliseconds(500);
  HostAccess(Loop& loop, const JobSpec& spec, std::string agent_path,
             std::vector<std::string> agent_arguments)
      : loop_(loop),
        spec_(spec),
        agent_(std::move(agent_path)),
        agent_arguments_(std::move(agent_arguments)),
        pool_(loop, kEndPatience) {}
  static Result<std::unique_ptr<HostAccess>> OpenLocal(Loop& loop, const JobSpec& spec,
                                                       const std::string& agent_path,
                                                       bool is_probe_wanted,
                                                       std::vector<std::string> agent_arguments);
  Status OpenRemote();
  RemoteShell& OpenShell();
  HostWay WayOf(const std::string& host) const;
  void SetWay(const HostSlots& host, bool is_this_machine);
  Result<Transport*> TransportOf(const std::string& host);
  void FailLater(Status why, DoneFn done);

  Loop& loop_;
  const JobSpec spec_;
  const HeldProgram agent_;  // of a list, none is held
  const std::vector<std::string> agent_arguments_;
  HostsByName hosts_;
  std::map<std::string, HostWay> ways_;                 // of hosts that have been looked up
  std::map<std::string, std::vector<DoneFn>> waiting_;  // for the look-up
  BlockingPool pool_;
  RemoteStderr errors_;
  std::unique_ptr<RemoteShell> command_shell_;
  std::unique_ptr<RemoteShell> library_shell_;
  std::unique_ptr<RemoteShell> shell_;  // chooses between the two for each host
  std::unique_ptr<Transport> local_;
  std::unique_ptr<Transport> remote_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// HVDRAY_AGENT_PATH, or hvdray-agent beside hvdray itself, not beside a link to it; else in
/// ../libexec/hvdray, where packages of distributions have it.
std::string AgentPath(const JobSpec& spec);

/// Checks what the options say about reaching hosts, before anything is opened. Errors:
/// kSpecInvalid, kFileUnreadable.
Status CheckHostAccess(const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_HOST_ACCESS_H_
