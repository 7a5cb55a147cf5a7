// How the hosts of a job are reached: this machine by a child process, others by SSH (a library,
// or the system's ssh) or by --launch-agent. Owns all that this takes.
#ifndef HVDRAY_CMD_HOST_ACCESS_H_
#define HVDRAY_CMD_HOST_ACCESS_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/blocking_pool.h"
#include "cluster/command_shell.h"
#include "cluster/remote_transport.h"
#include "launcher/placement/nic_select.h"
#include "launcher/placement/placement.h"
#include "launcher/spec/job_spec.h"

namespace hvdray {

/// The transport of a job: each host by its own way.
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
  void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) override;

 private:
  HostAccess(Loop& loop, std::vector<std::string> agent_arguments)
      : pool_(loop), agent_arguments_(std::move(agent_arguments)) {}
  Status OpenRemote(Loop& loop, const JobSpec& spec, const std::string& agent_path);
  RemoteShell& OpenShell(Loop& loop, const JobSpec& spec);

  BlockingPool pool_;
  const std::vector<std::string> agent_arguments_;
  RemoteStderr errors_;
  std::unique_ptr<RemoteShell> command_shell_;
  std::unique_ptr<RemoteShell> library_shell_;
  std::unique_ptr<RemoteShell> shell_;  // whichever of the two is right for a host
  std::unique_ptr<Transport> local_;
  std::unique_ptr<Transport> remote_;
  std::set<std::string> remote_hosts_;
};

/// Before anything is opened: is what the options say about reaching hosts possible at all?
/// Errors: kSpecInvalid, kFileUnreadable.
Status CheckHostAccess(const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_CMD_HOST_ACCESS_H_
