// SPDX-License-Identifier: Apache-2.0
// How the hosts of a job are reached: this machine by a child process, others by SSH (a library,
// or the system's ssh) or by --launch-agent. Owns all that this takes.
#ifndef HVDRAY_CMD_HOST_ACCESS_H_
#define HVDRAY_CMD_HOST_ACCESS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/blocking_pool.h"
#include "cluster/command_shell.h"
#include "cluster/local_transport.h"
#include "cluster/remote_transport.h"
#include "cmd/ssh_options.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/nic_select.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// How one host is reached.
struct HostWay {
  bool is_remote = false;     ///< Over the network, be it to this machine.
  bool is_elsewhere = false;  ///< Another machine, or one behind a port of this one.
};

/// is_this_machine: what AreThisMachine() says of its dial_name(). Pure.
HostWay WayTo(const HostSlots& host, bool is_this_machine, const JobSpec& spec);

/// Whether names of hosts mean anything to this machine.
NameLookup LookupOf(const JobSpec& spec);

/// The transport of a job: each host by its own way. Threads: the loop's.
class HostAccess : public Transport {
 public:
  /// `is_remote`: as many as `hosts`. agent_path: resolved, for this machine. spread: says whether
  /// agents listen for the probe of their neighbours. Errors: those of AgentBuilds when a host is
  /// remote.
  static Result<std::unique_ptr<HostAccess>> Open(Loop& loop, const JobSpec& spec,
                                                  const std::string& agent_path,
                                                  const std::vector<HostSlots>& hosts,
                                                  const std::vector<bool>& is_remote,
                                                  HostSpread spread);
  /// The same for a job whose hosts are told one by one. Nothing remote is opened before a host
  /// wants it. Errors: those of AgentBuilds when agent_path is a list.
  static Result<std::unique_ptr<HostAccess>> OpenElastic(Loop& loop, const JobSpec& spec,
                                                         const std::string& agent_path,
                                                         HostSpread spread);

  /// Before the first Start() of a host, and again when its address is another. Does not block: a
  /// name that has to be looked up is, in the pool. What is wrong with a host, Start() says.
  void AddHost(const HostSlots& host);
  /// Of a job opened by OpenElastic(). Certain once Start() of the host has called back; until its
  /// name has been looked up, true.
  bool IsRemote(const std::string& host) const { return WayOf(host).is_remote; }
  bool IsElsewhere(const std::string& host) const { return WayOf(host).is_elsewhere; }

  /// Of a host that was opened with or added. Waits for the look-up of its name.
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override;

 private:
  using DoneFn = std::function<void(Result<AgentStart>)>;
  /// A resolver that does not answer, or a file system: the job's end does not wait for it. What
  /// runs in the pool owns all that it touches.
  static constexpr Duration kEndPatience = std::chrono::milliseconds(500);
  HostAccess(Loop& loop, const JobSpec& spec, std::string agent_path,
             std::vector<std::string> agent_arguments)
      : loop_(loop),
        spec_(spec),
        agent_path_(std::move(agent_path)),
        agent_arguments_(std::move(agent_arguments)),
        pool_(loop, kEndPatience) {}
  static Result<std::unique_ptr<HostAccess>> OpenLocal(Loop& loop, const JobSpec& spec,
                                                       const std::string& agent_path,
                                                       bool is_probe_wanted);
  Status OpenRemote();
  RemoteShell& OpenShell();
  HostWay WayOf(const std::string& host) const;
  void SetWay(const HostSlots& host, bool is_this_machine);
  Result<Transport*> TransportOf(const std::string& host);
  void FailLater(Status why, DoneFn done);

  Loop& loop_;
  const JobSpec spec_;
  const std::string agent_path_;
  const std::vector<std::string> agent_arguments_;
  HostsByName hosts_;
  std::map<std::string, HostWay> ways_;                 // of those that have been looked up
  std::map<std::string, std::vector<DoneFn>> waiting_;  // for that
  BlockingPool pool_;
  RemoteStderr errors_;
  std::unique_ptr<RemoteShell> command_shell_;
  std::unique_ptr<RemoteShell> library_shell_;
  std::unique_ptr<RemoteShell> shell_;  // whichever of the two is right for a host
  std::unique_ptr<Transport> local_;
  std::unique_ptr<Transport> remote_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// Before anything is opened: is what the options say about reaching hosts possible at all?
/// Errors: kSpecInvalid, kFileUnreadable.
Status CheckHostAccess(const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_CMD_HOST_ACCESS_H_
