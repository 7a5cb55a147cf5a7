// SPDX-License-Identifier: Apache-2.0
// A client of `hvdray serve` (docs/serve.md) that uses nothing of hvdray, only a socket and a JSON
// library: runs two gangs, one after the other, on the same hosts, and prints what their workers
// answer. worker.sh is its worker; any other one of docs/channel.md will do.
//
//     hvdray-serve-client hvdray -np 2 -- examples/serve/worker.sh
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

// The socket ends with this process; then hvdray stops the workers, and ends too.
[[noreturn]] void Fail(const std::string& why, int exit_code = 1) {
  std::cerr << "hvdray-serve-client: " << why << "\n";
  std::exit(exit_code);
}

/// A message from hvdray.
struct Message {  // NOLINT(bugprone-exception-escape): its move throws nothing
  Json head;
  std::string blob;  ///< The raw bytes behind its line.
};

/// A running `hvdray serve`, and the connection to it.
class Serve {
 public:
  /// `command`: hvdray, and what follows `serve --control-fd N`; ends with a null pointer.
  explicit Serve(char** command) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
      Fail(std::string("socketpair: ") + std::strerror(errno));
    socket_ = ends[0];
    ::fcntl(socket_, F_SETFD, FD_CLOEXEC);  // hvdray inherits the other end only
    std::string number = std::to_string(ends[1]);
    std::string serve = "serve";
    std::string control_fd = "--control-fd";
    std::vector<char*> words = {command[0], serve.data(), control_fd.data(), number.data()};
    for (char** word = command + 1; *word != nullptr; ++word) words.push_back(*word);
    words.push_back(nullptr);
    const int error = ::posix_spawnp(&pid_, command[0], nullptr, nullptr, words.data(), environ);
    if (error != 0) Fail(std::string("can't start ") + command[0] + ": " + std::strerror(error));
    ::close(ends[1]);
  }

  /// Sends a message: a line, and the bytes that its key "blob" announces.
  void Say(Json head, const std::string& blob = {}) {
    if (!blob.empty()) head["blob"] = blob.size();
    const std::string bytes = head.dump() + '\n' + blob;
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(socket_, &bytes[sent], bytes.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return;  // It has ended. What it said before that is still to be heard.
      sent += static_cast<size_t>(n);
    }
  }

  /// The next message of one of these types. Others, such as events, are ignored; a refusal or
  /// the end ends this program.
  Message Expect(const std::vector<std::string>& types) {
    while (true) {
      Message message = Hear();
      const std::string kind = message.head.value("type", "");
      if (std::find(types.begin(), types.end(), kind) != types.end()) return message;
      if (kind == "refused") {
        Fail("refused: " + message.head.value("message", "") + " [" +
             message.head.value("code", "") + "]");
      }
      if (kind == "stopped") {
        Fail("the gang has ended before its time, with exit code " +
             message.head["exit"]["code"].dump());
      }
      if (kind == "bye") Fail("hvdray serve is ending");
    }
  }

  /// Ends it in good order. Returns its exit code.
  int End() {
    Say({{"type", "bye"}});
    Expect({"bye"});
    return Wait();
  }

 private:
  Message Hear() {
    size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) Receive();
    Message message;
    message.head = Json::parse(buffer_.substr(0, end), nullptr, /*allow_exceptions=*/false);
    if (!message.head.is_object()) Fail("no message of hvdray serve: " + buffer_.substr(0, end));
    const size_t size = message.head.value("blob", size_t{0});
    while (buffer_.size() < end + 1 + size) Receive();
    message.blob = buffer_.substr(end + 1, size);
    buffer_.erase(0, end + 1 + size);
    // Without this, hvdray holds the workers up once 64 MiB are on their way to us.
    if (message.head["type"] == "data") Say({{"type", "credit"}, {"bytes", end + 1 + size}});
    return message;
  }

  void Receive() {
    char bytes[65536];
    const ssize_t n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) Fail("hvdray serve has ended early, with exit code " + std::to_string(Wait()));
    buffer_.append(bytes, static_cast<size_t>(n));
  }

  int Wait() const {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  int socket_ = -1;
  pid_t pid_ = -1;
  std::string buffer_;  // heard, and not yet a whole message
};

/// A message of a worker may come in pieces, those of several workers in turn; only the first piece
/// has its "data". These ones are small.
void PrintAnswer(const Message& answer) {
  std::cout << "  rank " << answer.head["rank"] << ": " << answer.head["data"] << std::endl;
}

/// Each worker gets the object and the number first, and rank 0 one number more.
void RunGang(Serve& serve, int gang, int64_t object, int number) {
  serve.Say({{"type", "start"},
             {"gang", gang},
             {"env", {{"GREETING", "gang " + std::to_string(gang)}}},
             {"objects", {object}},
             {"data", number}});
  std::cout << "gang " << gang << std::endl;
  // The first worker may answer before the last one is ready.
  size_t workers = 0;
  for (size_t answers = 0; workers == 0 || answers < 2 * workers;) {
    const Message message = serve.Expect({"ready", "data"});
    if (message.head["type"] == "ready") {
      workers = message.head["workers"].size();
      std::cout << "  ready, workers: " << workers << std::endl;
    } else {
      PrintAnswer(message);
      ++answers;
    }
  }
  serve.Say({{"type", "send"}, {"gang", gang}, {"to", {0}}, {"data", number + 1}});
  PrintAnswer(serve.Expect({"data"}));
  serve.Say({{"type", "stop"}, {"gang", gang}, {"grace_s", 5}});
  const Message stopped = serve.Expect({"stopped"});
  std::cout << "  stopped, exit code: " << stopped.head["exit"]["code"] << std::endl;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) Fail("usage: hvdray-serve-client HVDRAY [OPTION]... -- WORKER [ARGUMENT]...", 2);
  Serve serve(argv + 1);
  serve.Say({{"type", "hello"}, {"protocol", 1}, {"client", "hvdray-serve-client"}});
  std::cout << "job " << serve.Expect({"hello"}).head["job_id"] << std::endl;
  // Each host keeps it once, for all workers of both gangs.
  serve.Say({{"type", "put"}, {"object", 1}}, "bytes that many workers need");
  RunGang(serve, 1, 1, 21);
  RunGang(serve, 2, 1, 100);
  return serve.End();
} catch (const std::exception& error) {
  Fail(error.what());  // a key without the value that it should have
}
