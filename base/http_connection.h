// One connection of the HTTP server, and what the connections of a server share. Private to
// base/http_*.cc; knows nothing of listening.
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
#include "base/http_parser.h"
#include "base/http_server.h"
#include "base/loop.h"

namespace hvdray {

class HttpConnection;

/// What a connection is doing. Each but kHeld lasts for a limited time.
enum class HttpPhase : uint8_t {
  kSilent,     ///< Before the first byte.
  kIdle,       ///< Between requests.
  kReading,    ///< A part of a request is here.
  kHeld,       ///< A request waits for its answer.
  kWriting,    ///< An answer did not fit into the socket's buffer.
  kLingering,  ///< Our side is shut; what still comes is dropped, so that the peer can read ours.
  kClosed,
};
inline constexpr size_t kHttpOpenPhases = 6;

/// The connections in one phase, in the order in which they entered it and so of their deadlines.
struct HttpPhaseList {
  HttpConnection* first = nullptr;
  HttpConnection* last = nullptr;
  size_t count = 0;
};

/// What the connections of a server see of it. Shared with them while a function of theirs runs: a
/// handler may destroy the server meanwhile.
struct HttpShared : std::enable_shared_from_this<HttpShared> {
  HttpShared(Loop& its_loop, EdgePoller& its_poller) : loop(its_loop), poller(its_poller) {}

  HttpPhaseList& ListOf(HttpPhase phase) { return lists[static_cast<size_t>(phase)]; }
  /// Closes all connections without telling anybody.
  void CloseAll();
  Duration TimeoutOf(HttpPhase phase) const;
  bool IsFull() const { return connection_count >= options.max_connections; }
  /// Of those that have not sent the header of a request yet; nullptr: each has sent one.
  HttpConnection* OldestWithoutHeader() const;
  /// Closes that one.
  void MakeRoom();
  bool IsWelcome(int fd, const sockaddr_in& remote);
  /// Closes those whose time is over, or answers them 408.
  void Expire();
  void ArmTimer(TimePoint due);
  /// `connection` has input that waits for the end of the caller's callback.
  void ResumeSoon(HttpConnection* connection);

  Loop& loop;
  EdgePoller& poller;
  HttpServerOptions options;
  HttpServer::Handlers handlers;
  std::function<void()> on_closed;  ///< A connection has ended: there is room for another.
  sockaddr_in bound{};
  bool is_bound_to_one_address = true;
  std::array<HttpPhaseList, kHttpOpenPhases> lists;
  size_t connection_count = 0;
  size_t buffered_bytes = 0;  ///< Of bodies that are not complete yet, all connections.
  bool has_logged_refusal = false;
  bool has_logged_drop = false;
  /// Closed, freed when none of their functions can be running.
  std::vector<std::unique_ptr<HttpConnection>> graveyard;
  std::vector<HttpConnection*> resumable;
  Watch resume_watch;
  Watch timer;
  TimePoint timer_due = TimePoint::max();
};

struct HttpExchange::Impl {
  HttpRequest request;
  HttpConnection* connection = nullptr;  ///< null: answered, or gone
  std::function<void()> on_gone;
};

class HttpConnection final : public EdgeSink {
 public:
  /// Owns itself from here until it closes.
  static void Start(HttpShared& shared, UniqueFd fd);
  HttpConnection(HttpShared& shared, UniqueFd fd);
  HttpConnection(const HttpConnection&) = delete;

  void OnReady(uint32_t events) override;
  void Reply(int status, std::shared_ptr<const std::string> body);
  /// The exchange was dropped unanswered.
  void Abandon();
  void OnTimeout();
  void Resume();
  /// The server is going away.
  void CloseSilently();

 private:
  friend struct HttpShared;
  /// An answer that the socket did not take whole.
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
  /// Books what the parser holds. False: all connections together hold too much.
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
  bool is_input_paused_ = false;  // more is pipelined than we keep
  bool is_end_near_ = false;      // the peer sends no more than what is here
  bool saw_end_ = false;
  bool is_watched_ = false;
  TimePoint entered_{};
  HttpConnection* previous_ = nullptr;
  HttpConnection* next_ = nullptr;
  HttpExchange::Impl* exchange_ = nullptr;
  HttpParser parser_;
  size_t buffered_ = 0;  // our part of shared_.buffered_bytes
  std::string stash_;    // pipelined behind a request that is being served
  std::unique_ptr<Unsent> unsent_;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_HTTP_CONNECTION_H_
