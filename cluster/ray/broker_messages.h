// What python/ray_driver.py and `hvdray-agent drive` say to each other: JSON, one object a line.
// Pure.
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

namespace hvdray {

/// Longest line either way: a table of some ten thousand nodes fits.
inline constexpr size_t kMaxBrokerLine = size_t{16} << 20;
/// Seats are numbered from 0 by whoever asks for them.
inline constexpr int kMaxBrokerSeat = 65535;

/// By Ray's own names: {"CPU": 2, "node:10.0.0.11": 0.001}.
using BrokerAmounts = std::map<std::string, double>;
using BrokerLabels = std::map<std::string, std::string>;

// ---- from Python

/// The first message.
struct BrokerHello {
  std::string ray;     ///< "2.60.0"
  std::string python;  ///< "3.11.7"
  std::string node_id;
  std::string node_ip;  ///< Ray's address of the node that the driver is on.
  std::string logs;     ///< The session's folder of logs, absolute.
  std::string submission_id;
  int raylet_pid = 0;  ///< 0: unknown.
};

struct BrokerNode {
  std::string id;  ///< Several nodes may have one address: this is the key.
  std::string ip;
  bool is_alive = false;
  BrokerAmounts total;
  BrokerAmounts free;  ///< Empty for a node that is not alive.
  BrokerLabels labels;
  /// It is being drained, and goes away then: seconds since 1970; 0: nobody has said when.
  std::optional<double> leaves_at = {};
};

/// All that Ray knows of, dead ones too, each time.
struct BrokerNodes {
  std::vector<BrokerNode> nodes;
};

enum class BrokerGroupState : uint8_t { kPending, kCreated, kRescheduling, kRemoved, kFailed };

/// How a group fares: told at each change, and every 5 s while it is pending.
struct BrokerGroup {
  std::string name;
  BrokerGroupState state = BrokerGroupState::kPending;
  std::string reason;  ///< Ray's scheduling_state: "NO_RESOURCES", "INFEASIBLE", …; may be empty.
  std::string text;    ///< kFailed: what Ray said.
  std::vector<std::string> bundles;  ///< Node id of each, empty where it has none (now).
};

struct BrokerSeatStarted {
  int seat = 0;
  std::string node_id;
  std::string ip;
  std::string hostname;
  std::vector<std::string> gpus;  ///< Of all bundles of the seat, in their order.
  int pid = 0;                    ///< Of the agent, on its node.
};

/// The agent or its actor has ended, or never began. Once a seat.
struct BrokerSeatEnded {
  int seat = 0;
  std::string text;
};

/// ray_driver.py was asked to end: SIGTERM or SIGINT; a second time means at once. Ray sends them
/// to drive as well, which is therefore started with both ignored and should leave them so.
struct BrokerSignal {
  int signo = 0;
  std::string why = {};  ///< For people; empty: somebody has asked for it.
};

using BrokerEvent = std::variant<BrokerHello, BrokerNodes, BrokerGroup, BrokerSeatStarted,
                                 BrokerSeatEnded, BrokerSignal>;

/// One line without its end. Errors: kProtocolError naming the key; also for a message of a kind
/// that is not known, since both ends travel in one package.
Result<BrokerEvent> ParseBrokerEvent(ByteView line);

// ---- to Python

/// All of the bundles or none. `selectors`: labels that the node of each bundle must have; empty,
/// or one a bundle.
struct BrokerReserve {
  std::string name;  ///< Not used before.
  std::vector<BrokerAmounts> bundles;
  std::string strategy = "PACK";
  std::vector<BrokerLabels> selectors;
};

/// One agent on the node that all of `bundles` are on; its actor sits in the first.
struct BrokerSeat {
  int seat = 0;
  std::string group;
  std::vector<int> bundles;
  /// "@gpus" becomes "0,1", "@python" the folder of the Python that Ray starts for the job's
  /// actors,
  /// "@raylet" the pid of the node's raylet.
  std::vector<std::string> argv;
  std::string input;  ///< Its first line on stdin, without the line's end: the key. Not shown.
  std::string runtime_env;  ///< JSON: Ray's, of the actor. Empty: that of the job.
};

/// Each with its line's end, pure ASCII.
std::string FormatBrokerReserve(const BrokerReserve& reserve);
std::string FormatBrokerRelease(const std::string& group);
/// Tell of nodes and groups, as they are and at each change; and no more, until the next watch.
std::string FormatBrokerWatch();
std::string FormatBrokerRest();
std::string FormatBrokerSeat(const BrokerSeat& seat);
std::string FormatBrokerUnseat(int seat);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_BROKER_MESSAGES_H_
