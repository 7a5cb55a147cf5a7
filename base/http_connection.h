// SPDX-License-Identifier: Apache-2.0
// One connection of the HTTP server, and the state that all connections of a server share. Private
// to base/http_*.cc. Knows nothing about listening. Threads: the loop's only.
#ifndef HVDRAY_BASE_HTTP_CONNECTION_H_
#define HVDRAY_BASE_HTTP_CONNECTION_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/edge_poller.h"
#include "base/fd.h"
#include "base/http_exchange.h"
#include "base/http_parser.h"
#include "base/loop.h"

namespace hvdray {

class HttpConnection;

/// What a connection is doing. Every phase but kHeld has a time limit: HttpShared::Timeout().
enum class HttpPhase : uint8_t {
  kSilent,     ///< Before the first byte.
  kIdle,       ///< Between requests.
  kReading,    ///< Part of a request has arrived.
  kHeld,       ///< A request waits for its answer.
  kWriting,    ///< The socket's buffer had no room for the rest of an answer.
  kLingering,  ///< Write side shut down; input is dropped, so that the peer can read the answer.
  kClosed,     ///< In the graveyard.
};
inline constexpr size_t kHttpOpenPhases = 6;  ///< All but kClosed.

/// The connections in one phase, in the order in which they entered it, and so by deadline.
struct HttpPhaseList {
  HttpConnection* first = nullptr;
  HttpConnection* last = nullptr;
  size_t count = 0;
};

/// The part of a server that its connections use. The server owns it.
struct HttpShared {
  HttpShared(Loop& its_loop, EdgePoller& its_poller, HttpServerOwner& its_owner)
      : loop(its_loop), poller(its_poller), owner(its_owner) {}

  HttpPhaseList& ListOf(HttpPhase phase) { return lists[static_cast<size_t>(phase)]; }
  /// Lives while a function of the server's owner runs, or an on_gone.
  struct Running {
    explicit Running(HttpShared& its_shared) : shared(its_shared) { ++shared.handlers_running; }
    ~Running() { --shared.handlers_running; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    HttpShared& shared;
  };
  /// Closes all connections and calls no on_gone or on_closed.
  void CloseAll();
  /// Duration::max(): no limit.
  Duration Timeout(HttpPhase phase) const;
  bool IsFull() const { return connection_count >= options.max_connections; }
  /// The oldest connection that has never sent a complete request header, silent ones first;
  /// nullptr: none.
  HttpConnection* OldestWithoutHeader() const;
  /// Closes OldestWithoutHeader(), if any.
  void MakeRoom();
  /// Asks the owner about a new connection.
  bool IsWelcome(int fd, const sockaddr_in& remote);
  /// Ends connections whose phase has timed out: 408 for an incomplete request, else no answer.
  void Expire();
  /// Makes sure that Expire() runs at `due` or earlier.
  void ArmTimer(TimePoint due);
  /// Calls connection->Resume() from the loop, after the current callback has ended.
  void ResumeSoon(HttpConnection* connection);

  Loop& loop;
  EdgePoller& poller;
  HttpServerOwner& owner;
  HttpServerOptions options;
  std::function<void()> on_closed;  ///< A connection has ended: there is room for another.
  sockaddr_in bound{};
  bool is_bound_to_one_address = true;
  std::array<HttpPhaseList, kHttpOpenPhases> lists;
  int handlers_running = 0;
  size_t connection_count = 0;
  size_t buffered_bytes = 0;  ///< Of incomplete bodies, all connections together.
  // Each warning is logged once per server, then at debug level or not at all.
  bool has_logged_refusal = false;
  bool has_logged_drop = false;
  /// Closed connections, freed when none of their functions can be running.
  std::vector<std::unique_ptr<HttpConnection>> graveyard;
  std::vector<HttpConnection*> resumable;
  Watch resume_watch;
  Watch timer;
  TimePoint timer_due = TimePoint::max();
};

/// Owned by the HttpExchange; the connection has a plain pointer to it until the answer.
struct HttpExchange::Impl {
  HttpRequest request;
  HttpConnection* connection = nullptr;  ///< nullptr: answered, or gone.
  std::function<void()> on_gone;
};

/// Reads requests one after another, hands each to the owner, and writes the answer. Always in the
/// list of its phase, which finds its deadline.
class HttpConnection final : public EdgeSink {
 public:
  /// Makes a connection that owns itself until it closes, and reads what has arrived already, so it
  /// may call OnRequest().
  static void Start(HttpShared& shared, UniqueFd fd);
  HttpConnection(HttpShared& shared, UniqueFd fd);
  HttpConnection(const HttpConnection&) = delete;

  void OnReady(uint32_t events) override;
  /// Answers the held request. `body`: as HttpExchange::Reply().
  void Reply(int status, std::shared_ptr<const std::string> body);
  /// The exchange was dropped unanswered.
  void Abandon();
  void OnTimeout();
  /// Processes the input that had to wait.
  void Resume();
  /// Closes without callbacks: the server is being destroyed.
  void CloseSilently();

 private:
  friend struct HttpShared;
  /// An answer that the socket did not take completely.
  struct Unsent {
    std::string head;
    std::shared_ptr<const std::string> body;
    size_t sent = 0;  // of head and body together
  };

  void ReadInput(bool until_empty);
  void Process(ByteView in);
  void Stash(ByteView rest);
  void OnEndOfInput();
  void Dispatch();
  void Refuse(int status);
  /// Counts what the parser buffers. False: all connections together buffer too much.
  bool Account();
  void Flush();
  void AfterReply();
  void Discard();
  void ShutDown();
  void Close();
  void Enter(HttpPhase phase);
  void Leave();
  bool is_open() const { return phase_ != HttpPhase::kClosed; }
  bool can_process() const {
    return phase_ == HttpPhase::kSilent || phase_ == HttpPhase::kIdle ||
           phase_ == HttpPhase::kReading;
  }

  HttpShared& shared_;
  UniqueFd fd_;
  HttpPhase phase_ = HttpPhase::kClosed;
  bool is_processing_ = false;
  bool keeps_alive_ = false;
  bool is_http10_ = false;
  bool is_head_ = false;
  bool has_sent_header_ = false;  // of its first request
  bool is_input_paused_ = false;  // stash_ is full, or others get their turn first
  bool is_end_near_ = false;      // the peer has shut down or failed: read to the end
  bool saw_end_ = false;
  bool is_watched_ = false;
  TimePoint entered_{};
  HttpConnection* previous_ = nullptr;
  HttpConnection* next_ = nullptr;
  HttpExchange::Impl* exchange_ = nullptr;
  HttpParser parser_;
  size_t buffered_ = 0;  // this connection's part of shared_.buffered_bytes
  std::string stash_;    // pipelined after a request in progress
  std::unique_ptr<Unsent> unsent_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_CONNECTION_H_
