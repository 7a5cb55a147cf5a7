// SPDX-License-Identifier: Apache-2.0
// The messages between python/hvdray/_ray_driver.py and `hvdray-agent launch`: JSON, one object per
// line. Pure. docs/adr/0013-ray-through-one-python-process.md.
#ifndef HVDRAY_CLUSTER_RAY_BROKER_MESSAGES_H_
#define HVDRAY_CLUSTER_RAY_BROKER_MESSAGES_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "launcher/job/ray_node.h"

namespace hvdray {

/// Longest line in either direction; fits a table of some ten thousand nodes.
inline constexpr size_t kMaxBrokerLine = size_t{16} << 20;

/// Highest number of an agent endpoint; the C++ side numbers them from 0.
inline constexpr int kMaxBrokerEndpoint = 65535;

// ---- from Python

/// The first message.
struct BrokerHello {
  std::string ray;     ///< "2.60.0"
  std::string python;  ///< "3.11.7"
  std::string node_id;
  std::string node_ip;  ///< Ray's address of the driver's node.
  std::string logs;     ///< The session's log directory, absolute.
  std::string submission_id;
  int raylet_pid = 0;  ///< 0: unknown.
  /// The broker reserves slots within a placement group that is there, so it takes them one by one.
  bool is_in_group = false;
  bool has_directory = false;  ///< Actors start in a directory that Ray has brought.
};

/// The whole table each time, including dead nodes, which have no free resources.
using BrokerNodes = std::vector<RayNode>;

enum class BrokerGroupState : uint8_t { kPending, kCreated, kRescheduling, kRemoved, kFailed };

/// The state of a placement group, sent at each change, and every 5 s while it is pending.
struct BrokerGroup {
  std::string name;
  BrokerGroupState state = BrokerGroupState::kPending;
  std::string reason;  ///< Ray's scheduling_state: "NO_RESOURCES", "INFEASIBLE", …; may be empty.
  std::string text;    ///< kFailed: why; with the reason "INFEASIBLE", there will never be room.
  std::vector<std::string> bundles;  ///< Node id of each bundle; empty: not placed (now).
};

/// The agent runs.
struct BrokerEndpointStarted {
  int endpoint = 0;
  std::string node_id;
  std::string ip;
  std::string hostname;
  std::vector<std::string> gpus;  ///< Of all its bundles, in their order.
  int pid = 0;                    ///< The agent's, on its node.
};

/// The agent or its actor has ended, or never started. Exactly once per endpoint.
struct BrokerEndpointEnded {
  int endpoint = 0;
  std::string text;
};

/// ray_driver.py got SIGTERM or SIGINT and must end; a second signal means force stop. Ray signals
/// `hvdray-agent launch` as well, so it is started with both ignored and must leave them so.
struct BrokerSignal {
  int signo = 0;
  std::string why = {};  ///< For the user; empty: a user asked for it.
};

using BrokerEvent = std::variant<BrokerHello, BrokerNodes, BrokerGroup, BrokerEndpointStarted,
                                 BrokerEndpointEnded, BrokerSignal>;

/// Parses one line, without its newline. Errors: kProtocolError naming the key; also for unknown
/// kinds of messages, since both ends come in one package.
Result<BrokerEvent> ParseBrokerEvent(ByteView line);

// ---- to Python

/// Reserves all bundles or none. `selectors`: labels that the node of each bundle must have; empty,
/// or one per bundle.
struct BrokerReserve {
  std::string name;  ///< Unique in the job.
  std::vector<RayAmounts> bundles;
  std::string strategy = "PACK";
  std::vector<RayLabels> selectors;
};

/// Starts one agent on the node that has all of `bundles`; its actor runs in the first.
struct BrokerEndpoint {
  int endpoint = 0;
  std::string group;
  std::vector<int> bundles;
  /// Placeholders: "@gpus" becomes "0,1", "@python" the Python that Ray starts for the job's
  /// actors, "@raylet" the pid of the node's raylet, "@agent:PATH" a copy of that file
  /// of ours, which the broker brings.
  std::vector<std::string> argv;
  std::string input;        ///< The first line on its stdin, without newline: the key. Secret.
  std::string runtime_env;  ///< Ray's, for the actor, as JSON. Empty: the job's.
};

// Each returns one line of ASCII with its newline.

std::string FormatBrokerReserve(const BrokerReserve& reserve);
std::string FormatBrokerRelease(const std::string& group);
/// Starts reports of nodes and groups: the present state, then each change.
std::string FormatBrokerWatch();
/// Stops these reports until the next watch.
std::string FormatBrokerRest();
std::string FormatBrokerEndpoint(const BrokerEndpoint& endpoint);
std::string FormatBrokerCloseEndpoint(int endpoint);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_BROKER_MESSAGES_H_
