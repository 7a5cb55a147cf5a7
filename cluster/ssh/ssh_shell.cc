// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_shell.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/text.h"
#include "cluster/ssh/ssh_config_source.h"
#include "cluster/ssh/ssh_connect.h"

namespace hvdray {
namespace {

// A command that runs over an SSH session, presented as a stream and a process on the loop.

/// Settings of a Command.
struct SshCommandOptions {
  std::string host;  ///< For messages.
  /// Called with each stderr line of the command, without the newline; long lines come in pieces.
  std::function<void(std::string_view line)> on_stderr;
  Duration keep_alive_period = std::chrono::seconds(15);
  /// How long the command may run on after its stream was closed; then the connection is cut.
  Duration linger = std::chrono::seconds(2);
};

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr int kReceivesPerTurn = 4;  // so that one busy host does not starve the rest of the loop
// Encrypted bytes that wait for the socket; more would only cost memory.
constexpr size_t kUnsentBytes = size_t{256} << 10;
constexpr size_t kMaxLineBytes = 4096;

/// What stream and process share. Either may go first. Keeps itself, and with it the callbacks,
/// while one of them runs.
class Command : public std::enable_shared_from_this<Command> {
 public:
  Command(Loop& loop, std::unique_ptr<SshSession> session, SshCommandOptions options)
      : loop_(loop), session_(std::move(session)), options_(std::move(options)) {}

  // The stream's side.
  void Start(ByteStream::Owner& owner);
  void Write(std::string bytes);
  size_t QueuedBytes() const {
    return queued_bytes_ + (session_ == nullptr ? 0 : session_->unsent_bytes());
  }
  void SetReading(bool is_reading);
  void DropStream();

  // The process's side.
  void OnExit(std::function<void(Status)> callback);
  void DropProcess();

 private:
  struct Chunk {
    std::string bytes;
    size_t sent;
  };

  void Turn();
  void Receive();
  void Deliver();
  bool DeliverStderr();
  void TakeStderr(ByteView bytes);
  void Pump();
  void CheckDrained();
  void CheckEnd();
  void DeliverRest();
  void CloseStream(const Status& status);
  void End(Status how);
  void Disconnect();
  void Break(Status why) {
    if (broken_.ok()) broken_ = std::move(why);
  }
  void TurnLater() {
    if (session_ != nullptr && !later_.is_active()) {
      later_ = loop_.After(Duration::zero(), [this] { Turn(); });
    }
  }
  void UpdateWatches();
  bool is_stream_open() const { return has_stream_ && !is_closed_; }

  Loop& loop_;
  std::unique_ptr<SshSession> session_;  // null once the connection is closed
  const SshCommandOptions options_;
  ByteStream::Owner* owner_ = nullptr;  // once started
  std::function<void(Status)> on_exit_;
  std::optional<Status> exit_;  // how the command ended
  Status broken_;               // why the connection is unusable
  Watch read_watch_;
  Watch write_watch_;
  Watch later_;
  Watch linger_;
  Watch keep_alive_;
  Watch exit_later_;
  std::deque<Chunk> queue_;
  size_t queued_bytes_ = 0;
  std::string stderr_line_;
  bool has_stream_ = true;
  bool has_process_ = true;
  bool is_started_ = false;
  bool is_reading_ = false;
  bool is_closed_ = false;   // OnClosed() has been called
  bool has_waited_ = false;  // a Write() could not be sent at once
};

void Command::Start(ByteStream::Owner& owner) {
  owner_ = &owner;
  is_started_ = true;
  is_reading_ = true;
  has_waited_ = !queue_.empty();
  keep_alive_ = loop_.Every(options_.keep_alive_period, [this] {
    if (session_ == nullptr) return;
    session_->SendKeepAlive();
    TurnLater();
  });
  // The command's first bytes may have arrived with the answer to exec.
  TurnLater();
}

void Command::Write(std::string bytes) {
  if (bytes.empty() || is_closed_ || !broken_.ok()) return;
  queued_bytes_ += bytes.size();
  queue_.push_back({std::move(bytes), 0});
  if (!is_started_) return;
  Pump();
  if (!broken_.ok()) return TurnLater();
  if (QueuedBytes() > 0) has_waited_ = true;
  UpdateWatches();
}

void Command::SetReading(bool is_reading) {
  if (is_closed_ || !is_started_ || is_reading == is_reading_) return;
  is_reading_ = is_reading;
  UpdateWatches();
  // Bytes that were received during the pause cause no more events of the socket.
  if (is_reading) TurnLater();
}

void Command::DropStream() {
  has_stream_ = false;
  queue_.clear();
  queued_bytes_ = 0;
  if (session_ == nullptr) return;
  if (!has_process_) return Disconnect();
  session_->SendEof();
  // Give the command time to end by itself, so that its exit status is known.
  linger_ = loop_.After(options_.linger, [this] {
    const auto self = shared_from_this();
    End({ErrorCode::kAgentLost,
         fmt::format("connection to {} closed before the command had ended", options_.host)});
  });
  is_started_ = true;
  TurnLater();
}

void Command::OnExit(std::function<void(Status)> callback) {
  on_exit_ = std::move(callback);
  if (!exit_) return;
  exit_later_ = loop_.After(Duration::zero(), [this] {
    const auto call = std::exchange(on_exit_, nullptr);
    if (call) call(*exit_);
  });
}

void Command::DropProcess() {
  has_process_ = false;
  on_exit_ = nullptr;
  exit_later_.Cancel();
  if (!has_stream_) Disconnect();
}

/// Does all pending work: receives, delivers, sends, and checks for the end. Each callback may drop
/// the stream, the process, or both.
void Command::Turn() {
  const auto self = shared_from_this();
  later_.Cancel();
  if (session_ != nullptr) Receive();
  if (session_ != nullptr) Pump();
  if (session_ != nullptr) CheckDrained();
  if (session_ != nullptr) CheckEnd();
  if (session_ != nullptr) UpdateWatches();
}

void Command::Receive() {
  for (int i = 0; i < kReceivesPerTurn && session_ != nullptr; ++i) {
    const bool has_more = session_->Receive();
    if (is_stream_open() && !is_reading_) return;  // received only the host's window for Pump()
    Deliver();
    if (!has_more) return;
  }
}

void Command::Deliver() {
  static thread_local std::array<char, kReadBytes> buffer;
  for (;;) {
    if (!DeliverStderr()) return;
    if (session_ == nullptr || (is_stream_open() && !is_reading_)) return;
    const Result<size_t> n =
        session_->Read(SshSession::Output::kStdout, buffer.data(), buffer.size());
    if (!n.ok()) return Break(n.status());
    if (*n == 0) return;
    if (is_stream_open()) owner_->OnData(ByteView(buffer.data(), *n));
    if (session_ == nullptr) return;
  }
}

/// False when the connection is unusable.
bool Command::DeliverStderr() {
  std::array<char, 4096> buffer;
  for (;;) {
    const Result<size_t> n =
        session_->Read(SshSession::Output::kStderr, buffer.data(), buffer.size());
    if (!n.ok()) Break(n.status());
    if (!n.ok()) return false;
    if (*n == 0) return true;
    TakeStderr(ByteView(buffer.data(), *n));
    if (session_ == nullptr) return false;
  }
}

void Command::TakeStderr(ByteView bytes) {
  if (!options_.on_stderr) return;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool is_whole = end != ByteView::npos;
    stderr_line_ += bytes.substr(0, end);
    bytes.remove_prefix(is_whole ? end + 1 : bytes.size());
    if (!is_whole && stderr_line_.size() < kMaxLineBytes) return;
    std::string line = std::exchange(stderr_line_, {});
    if (line.ends_with('\r')) line.pop_back();
    options_.on_stderr(line);
  }
}

/// Encrypts as much as the host's window allows, and sends as much as the socket accepts.
void Command::Pump() {
  Status sent = session_->Flush();
  while (sent.ok() && !queue_.empty() && session_->unsent_bytes() < kUnsentBytes) {
    Chunk& chunk = queue_.front();
    const Result<size_t> n = session_->Write(ByteView(chunk.bytes).substr(chunk.sent));
    if (!n.ok()) sent = n.status();
    if (!n.ok() || *n == 0) break;
    chunk.sent += *n;
    queued_bytes_ -= *n;
    if (chunk.sent == chunk.bytes.size()) queue_.pop_front();
    if (session_->unsent_bytes() >= kUnsentBytes || queue_.empty()) sent = session_->Flush();
  }
  if (sent.ok()) sent = session_->Flush();
  if (!sent.ok()) Break(std::move(sent));
}

void Command::CheckDrained() {
  if (!has_waited_ || QueuedBytes() > 0 || !broken_.ok()) return;
  has_waited_ = false;
  if (is_stream_open()) owner_->OnDrained();
}

void Command::CheckEnd() {
  const bool is_paused = is_stream_open() && !is_reading_;
  // Deliver the host's last output first, even when a write failed.
  if (!broken_.ok() && !is_paused) DeliverRest();
  if (session_ == nullptr) return;
  if (!is_paused && session_->is_at_end()) {
    if (!stderr_line_.empty()) TakeStderr("\n");
    if (session_ != nullptr) CloseStream({});
    const std::optional<Status> exit = session_ == nullptr ? std::nullopt : session_->Exit();
    if (exit && exit->ok()) return End({});
    if (exit) {
      return End({exit->code(), fmt::format("command on {} {}", options_.host, exit->message())});
    }
  }
  if (session_ == nullptr) return;
  if (session_->is_peer_gone() && !is_paused) Break({ErrorCode::kAgentLost, "closed by the host"});
  if (broken_.ok()) return;
  const Status lost = Status(ErrorCode::kAgentLost, broken_.message())
                          .WithContext(fmt::format("connection to {}", options_.host));
  CloseStream(lost);
  End(lost);
}

void Command::DeliverRest() {
  constexpr int kAll = 1 << 11;  // 256 MiB, more than any socket can hold
  const Status why = broken_;
  broken_ = {};
  for (int i = 0; i < kAll && session_ != nullptr && session_->Receive(); ++i) {
    Deliver();
    if (!broken_.ok()) break;
  }
  broken_ = why;
}

void Command::CloseStream(const Status& status) {
  if (is_closed_) return;
  is_closed_ = true;
  queue_.clear();
  queued_bytes_ = 0;
  if (has_stream_) owner_->OnClosed(status);
}

/// The command has ended, or is unreachable for good.
void Command::End(Status how) {
  Disconnect();
  if (exit_) return;
  exit_ = std::move(how);
  const auto call = std::exchange(on_exit_, nullptr);
  if (call) call(*exit_);
}

void Command::Disconnect() {
  for (Watch* watch : {&read_watch_, &write_watch_, &later_, &linger_, &keep_alive_}) {
    watch->Cancel();
  }
  session_.reset();
}

void Command::UpdateWatches() {
  if (!is_started_ || session_ == nullptr) return;
  // While paused, leave the host's bytes in the socket, unless our writes wait for its window.
  const bool is_paused = is_stream_open() && !is_reading_;
  const bool waits_for_window = !queue_.empty() && session_->unsent_bytes() < kUnsentBytes;
  const bool wants_read = !session_->is_peer_gone() && (!is_paused || waits_for_window);
  if (!wants_read) {
    read_watch_.Cancel();
  } else if (!read_watch_.is_active()) {
    read_watch_ = loop_.OnFd(session_->fd(), FdEvent::kRead, [this] { Turn(); });
  }
  if (session_->unsent_bytes() == 0) {
    write_watch_.Cancel();
  } else if (!write_watch_.is_active()) {
    write_watch_ = loop_.OnFd(session_->fd(), FdEvent::kWrite, [this] { Turn(); });
  }
}

class SshStream : public ByteStream {
 public:
  explicit SshStream(std::shared_ptr<Command> command) : command_(std::move(command)) {}
  ~SshStream() override { command_->DropStream(); }
  void Start(Owner& owner) override { command_->Start(owner); }
  void Write(std::string bytes) override { command_->Write(std::move(bytes)); }
  size_t QueuedBytes() const override { return command_->QueuedBytes(); }
  void SetReading(bool is_reading) override { command_->SetReading(is_reading); }

 private:
  const std::shared_ptr<Command> command_;  // shared with the process
};

class SshProcess : public AgentProcess {
 public:
  explicit SshProcess(std::shared_ptr<Command> command) : command_(std::move(command)) {}
  ~SshProcess() override { command_->DropProcess(); }
  void OnExit(std::function<void(Status)> callback) override {
    command_->OnExit(std::move(callback));
  }
  int pid() const override { return 0; }

 private:
  const std::shared_ptr<Command> command_;  // shared with the stream
};

/// Takes over a session after Exec().
/// The stream calls on_closed with ok when the command closes its stdout, with kAgentLost when the
/// connection breaks. Destroying it closes the command's stdin; the connection closes once the
/// command has ended, after `linger` at the latest, or at once if the process object is destroyed
/// too. The process ends with kAgentLost for an exit code other than 0, a signal, or a lost
/// connection. Threads: the loop's; the loop outlives both.
AgentStart StartSshCommand(Loop& loop, std::unique_ptr<SshSession> session,
                           SshCommandOptions options) {
  auto command = std::make_shared<Command>(loop, std::move(session), std::move(options));
  AgentStart start;
  start.stream = std::make_unique<SshStream>(command);
  start.process = std::make_unique<SshProcess>(command);
  return start;
}

// The shell.

/// What jobs in the pool need. They may outlive the shell until they notice the cancellation.
struct Shared {
  explicit Shared(Libssh2ShellOptions given)
      : options(std::move(given)),
        configs(options.overrides, options.user, options.ssh_program),
        questions(options.ask),
        cancel(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  const Libssh2ShellOptions options;
  SshConfigSource configs;
  SshQuestions questions;
  const UniqueFd cancel;  // readable: give up
};

struct Found {
  SshSettings settings;
  std::vector<SshAddress> addresses;
};

/// First job in the pool: finds the host's settings and addresses.
Result<Found> FindHost(Shared& shared, const Result<SshTarget>& target) {
  const SshLimit limit = SshLimit::In(shared.options.connect_timeout, shared.cancel.get());
  if (!target.ok()) return target.status();
  HVDRAY_RETURN_IF_ERROR(CheckSshTarget(*target));
  Found found;
  HVDRAY_ASSIGN_OR_RETURN(found.settings, shared.configs.Settings(*target, limit));
  if (!found.settings.needs_openssh.empty()) {
    return Status(ErrorCode::kNotSupported,
                  fmt::format("this host needs the system's ssh: {}", found.settings.needs_openssh),
                  "--ssh-transport openssh");
  }
  HVDRAY_ASSIGN_OR_RETURN(found.addresses,
                          LookUpSshHost(found.settings.host_name, found.settings.port));
  return found;
}

class Libssh2Shell : public RemoteShell {
 public:
  Libssh2Shell(Loop& loop, BlockingPool& pool, Libssh2ShellOptions options)
      : loop_(loop),
        pool_(pool),
        shared_(std::make_shared<Shared>(std::move(options))),
        gate_(shared_->options.max_connecting_per_address) {}

  ~Libssh2Shell() override {
    const uint64_t one = 1;
    (void)WriteAll(shared_->cancel.get(),
                   ByteView(reinterpret_cast<const char*>(&one), sizeof one));
    shared_->questions.Close();
  }

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    auto start = std::make_shared<Start>();
    start->host = host;
    start->command = command;
    start->done = std::move(done);
    pool_.Run<Result<Found>>([shared = shared_, target = shared_->options.target_of(
                                                    host)] { return FindHost(*shared, target); },
                             Alive<Result<Found>>([this, start](Result<Found> found) {
                               OnFound(start, std::move(found));
                             }));
  }

 private:
  /// One pending Run(). Shared by the callbacks that carry it from step to step.
  struct Start {
    std::string host;
    std::string command;
    std::function<void(Result<AgentStart>)> done;
    Found found;
    std::string door;
  };
  using StartPtr = std::shared_ptr<Start>;

  /// Calls `function` only while the shell exists.
  template <typename T>
  std::function<void(T)> Alive(std::function<void(T)> function) {
    return [alive = std::weak_ptr<bool>(alive_), function = std::move(function)](T value) {
      if (!alive.expired()) function(std::move(value));
    };
  }

  void OnFound(const StartPtr& start, Result<Found> found) {
    if (!found.ok()) return start->done(std::move(found).status());
    start->found = std::move(*found);
    start->door = start->found.addresses[0].ToString();
    gate_.Enter(start->door, [this, start] { Connect(start); });
  }

  void Connect(const StartPtr& start) {
    using Session = Result<std::unique_ptr<SshSession>>;
    pool_.Run<Session>(
        [shared = shared_, host = start->host, command = start->command, found = start->found] {
          const SshLimit limit =
              SshLimit::In(shared->options.connect_timeout, shared->cancel.get());
          return ConnectSsh(found.settings, host, found.addresses, command, shared->questions,
                            limit);
        },
        Alive<Session>([this, start](Session session) {
          gate_.Leave(start->door);
          if (!session.ok()) return start->done(std::move(session).status());
          Begin(start, std::move(*session));
        }));
  }

  void Begin(const StartPtr& start, std::unique_ptr<SshSession> session) {
    SshCommandOptions options;
    options.host = start->host;
    options.keep_alive_period = shared_->options.keep_alive_period;
    if (shared_->options.on_stderr) {
      options.on_stderr = [on_stderr = shared_->options.on_stderr,
                           host = start->host](std::string_view line) { on_stderr(host, line); };
    }
    start->done(StartSshCommand(loop_, std::move(session), std::move(options)));
  }

  Loop& loop_;
  BlockingPool& pool_;
  const std::shared_ptr<Shared> shared_;  // shared with the jobs in the pool
  SshGate gate_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<RemoteShell> MakeLibssh2Shell(Loop& loop, BlockingPool& pool,
                                              Libssh2ShellOptions options) {
  return std::make_unique<Libssh2Shell>(loop, pool, std::move(options));
}

}  // namespace hvdray
