// SPDX-License-Identifier: Apache-2.0
// What a client of `hvdray serve` may ask, as plain values, and the reader of it. docs/serve.md is
// normative. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_CONTROL_MESSAGES_H_
#define HVDRAY_LAUNCHER_ENGINE_CONTROL_MESSAGES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

inline constexpr int kControlProtocol = 1;
/// Bytes of the longest blob of `start` and `send`.
inline constexpr uint64_t kMaxControlBlob = uint64_t{64} << 10;

// Requests, in the order of docs/serve.md.
namespace control {
struct Hello {
  int protocol = 0;
  std::string client;  ///< For people.
};
struct Start {  // NOLINT(bugprone-exception-escape): its move throws nothing
  int64_t gang = 0;
  int np = 0;  ///< 0: all slots.
  std::map<std::string, std::string> env;
  std::vector<int64_t> objects;  ///< Each worker gets them before the data.
  bool has_data = false;         ///< Each worker gets `data` and `blob` first.
  Json data;
  std::string blob;
};
/// Workers by rank; empty: all.
using Ranks = std::vector<int>;
struct Send {
  int64_t gang = 0;
  Ranks to;
  std::vector<int64_t> objects;
  Json data;
  std::string blob;
};
struct Signal {
  int64_t gang = 0;
  Ranks to;
  int signo = 0;
};
struct Stop {
  int64_t gang = 0;
  Duration grace{};
  bool is_sigint_first = false;  ///< SIGTERM follows only after the grace.
};
/// Bytes for workers, kept once a host until Drop. They come piece by piece, or as memory.
struct Put {
  int64_t object = 0;
  uint64_t size = 0;  ///< Of the pieces.
  bool is_memory = false;
  std::shared_ptr<const UniqueFd> memory = {};  ///< Sealed, if the client keeps to the protocol.
};
struct Drop {
  int64_t object = 0;
};
/// The hosts of an elastic job, as its client found them.
struct Hosts {
  std::vector<std::string> hosts;  ///< Lines of a discovery script: "node1:4".
  bool is_final = false;           ///< They never change again.
};
/// Workers of an elastic job are told that hosts have changed, whether they have or not.
struct Notify {
  int64_t gang = 0;
  Ranks to;
  int64_t timestamp = 0;  ///< Seconds since 1970, as in wire::Notify.
};
/// Imports for the workers of later gangs, done at once.
struct Warm {                        // NOLINT(bugprone-exception-escape): its move throws nothing
  std::vector<std::string> preload;  ///< "?a": a, if it can be imported.
  std::map<std::string, std::string> env;  ///< As that of the gangs' starts.
};
/// Answered once what workers have printed until now is written.
struct Flush {};
/// Bytes of `data` messages, lines included, that the client has taken.
struct Credit {
  uint64_t bytes = 0;
};
struct Bye {};
}  // namespace control
using ControlRequest =
    std::variant<control::Hello, control::Start, control::Send, control::Signal, control::Stop,
                 control::Put, control::Drop, control::Hosts, control::Notify, control::Warm,
                 control::Flush, control::Credit, control::Bye>;

/// The request that this line is; a blob is still to come. `grace`: of a `stop` that names none.
/// Errors: kProtocolError.
Result<ControlRequest> ReadControlRequest(std::string_view type, const Json& head, uint64_t blob,
                                          Duration grace);
/// `refused`. `about`: the type of a request, or null.
Json RefusedMessage(const Json& about, const Status& why);
Json ByeMessage(int exit_code);
/// The answer to `hello`.
Json HelloMessage(std::string_view build, std::string_view job_id);
/// The answer to `flush`.
Json FlushedMessage();

/// Where the request's blob goes; nullptr: it has none, or is Put.
std::string* BlobOf(ControlRequest& request);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_CONTROL_MESSAGES_H_
