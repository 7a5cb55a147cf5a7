// Where the hosts of an elastic job come from: a fixed list, a file that is watched, a script, a
// scheduler. A source says what there is; who is used when is the driver's decision.
#ifndef HVDRAY_CLUSTER_HOST_SOURCE_H_
#define HVDRAY_CLUSTER_HOST_SOURCE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "base/status.h"

namespace hvdray {

/// Threads: the loop's. No handler is called from within Start() or Stop().
class HostSource {
 public:
  struct Handlers {
    /// All hosts that there are now, in the order of the source, none twice. Called for the first
    /// list, for each that differs in more than its order, and for the first one behind a failure.
    /// is_final: the source never says anything else. May stop or destroy the source.
    std::function<void(std::vector<HostSlots> hosts, bool is_final)> on_hosts;
    /// The source could not say, and did not say the same before; it goes on asking. Before any
    /// on_hosts: it has never worked, and the job has no hosts. May stop or destroy the source.
    std::function<void(Status why)> on_failure;
  };
  virtual ~HostSource() = default;
  /// Begins. Once. Errors: what is wrong before anything is asked; then no handler is ever called.
  virtual Status Start(Handlers handlers) = 0;
  /// Ends; no handler is called afterwards. What the source has started is ended too.
  virtual void Stop() = 0;
};

/// Reads a list of hosts as people or programs write it; none may come twice in the result.
/// `*warning`: left empty, or one line on what was taken although it looks wrong.
using ParseHosts =
    std::function<Result<std::vector<HostSlots>>(std::string_view text, std::string* warning)>;

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_HOST_SOURCE_H_
