// SPDX-License-Identifier: Apache-2.0
// The command in a process of its own: what a script reads, which code it ends with.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cmd/commands.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/unit/http/http_client_fixture.h"

namespace hvdray {
namespace {

class Child {
 public:
  /// without_reader: nobody reads its stdout from the start. hold: HVDRAY_KV_HOLD.
  explicit Child(std::vector<std::string> args, bool without_reader = false,
                 const char* hold = nullptr)
      : out_(MakePipe().value()), err_(MakePipe().value()) {
    if (without_reader) out_.read_end.Reset();
    std::fflush(stdout);  // what gtest has printed is not the child's
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGPIPE, SIG_IGN);
      if (hold != nullptr) ::setenv("HVDRAY_KV_HOLD", hold, 1);
      ::dup2(out_.write_end.get(), STDOUT_FILENO);
      ::dup2(err_.write_end.get(), STDERR_FILENO);
      const int code = RendezvousCommand({.args = args});
      std::fflush(nullptr);
      ::_exit(code);
    }
    out_.write_end.Reset();
    err_.write_end.Reset();
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string ReadLine() {
    std::string line;
    char c = 0;
    while (::read(out_.read_end.get(), &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }
  void Signal(int signo) const { ::kill(pid_, signo); }
  /// Waits for its end.
  int ExitCode() {
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string Errors() { return ReadAll(err_.read_end.get()); }
  std::string Output() { return ReadAll(out_.read_end.get()); }

 private:
  static std::string ReadAll(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }

  Pipe out_, err_;
  pid_t pid_ = -1;
};

std::string Receive(const RawClient& client, size_t bytes) {
  std::string text(bytes, '\0');
  const ssize_t n = ::recv(client.fd(), text.data(), bytes, MSG_WAITALL);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

uint16_t PortOf(const std::string& line) {
  return static_cast<uint16_t>(std::atoi(line.substr(line.find(' ') + 1).c_str()));
}

TEST(RendezvousCommandTest, SaysWhereItListensAndWhatAWorkerNeeds) {
  Child child({"-H", "a:2,b:2"});
  const std::string first = child.ReadLine();
  const uint16_t port = PortOf(first);
  EXPECT_EQ(first, "127.0.0.1 " + std::to_string(port));
  EXPECT_EQ(child.ReadLine(), "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1");
  EXPECT_EQ(child.ReadLine(), "HOROVOD_GLOO_RENDEZVOUS_PORT=" + std::to_string(port));
  EXPECT_EQ(child.ReadLine(), "HOROVOD_CONTROLLER=gloo");
  EXPECT_EQ(child.ReadLine(), "HOROVOD_CPU_OPERATIONS=gloo");
  const RawClient client(port);
  client.Send("GET /rank_and_size/b:1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n3,4,1,2,1,2";
  EXPECT_EQ(Receive(client, answer.size()), answer);
  child.Signal(SIGTERM);
  EXPECT_EQ(child.ExitCode(), 143);
  EXPECT_NE(child.Errors().find("no authentication"), std::string::npos);
}

TEST(RendezvousCommandTest, AnswersWhatIsHeldBeforeItEnds) {
  Child child({}, /*without_reader=*/false, "1m");
  const RawClient client(PortOf(child.ReadLine()));
  // The second request is read behind the first: once 404 for it is there, nothing is held before.
  client.Send("GET /s/k HTTP/1.1\r\n\r\nGET /global/1 HTTP/1.1\r\n\r\n");
  const std::string missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
  EXPECT_EQ(Receive(client, missing.size()), missing);
  child.Signal(SIGINT);
  EXPECT_EQ(Receive(client, missing.size()), missing);
  EXPECT_EQ(child.ExitCode(), 130);
}

TEST(RendezvousCommandTest, RefusesTheNetworkWithoutAList) {
  Child child({"--host", "0.0.0.0"});
  EXPECT_EQ(child.ExitCode(), 2);
  const std::string errors = child.Errors();
  EXPECT_TRUE(NamesFacts(errors, {"hint: ", "addresses", "--allow CIDR"})) << errors;
  EXPECT_EQ(child.Output(), "");
}

TEST(RendezvousCommandTest, NamesThisMachineWhenItListensOnAllAddresses) {
  Child child({"--bind", "0.0.0.0", "--allow", "10.0.0.0/8"});
  EXPECT_EQ(child.ReadLine().substr(0, 8), "0.0.0.0 ");
  const std::string address = child.ReadLine();
  EXPECT_EQ(address.substr(0, 29), "HOROVOD_GLOO_RENDEZVOUS_ADDR=");
  EXPECT_NE(address.substr(29), "0.0.0.0");
  child.Signal(SIGHUP);
  EXPECT_EQ(child.ExitCode(), 129);
}

TEST(RendezvousCommandTest, SaysThatAPortIsTaken) {
  Child first({});
  const std::string port = std::to_string(PortOf(first.ReadLine()));
  Child second({"--port", port});
  EXPECT_EQ(second.ExitCode(), 125);
  const std::string errors = second.Errors();
  EXPECT_NE(errors.find("127.0.0.1:" + port), std::string::npos) << errors;
  EXPECT_NE(errors.find("HVD-E0502"), std::string::npos) << errors;
}

TEST(RendezvousCommandTest, RefusesWrongWordsBeforeItListens) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--nonsense"},          {"word"},
      {"--port", "70000"},     {"--port", "x"},
      {"--kv-hold", "1"},      {"-H", "a"},
      {"-H", "a:0"},           {"-H", "a:1,a:1"},
      {"--allow", "10/8"},     {"--host", "localhost"},
      {"--host", "127.0.0.1 "}};
  for (const std::vector<std::string>& args : wrong) {
    Child child(args);
    EXPECT_EQ(child.ExitCode(), 2) << testing::PrintToString(args);
    const std::string errors = child.Errors();
    EXPECT_EQ(errors.rfind("hvdray rendezvous: ", 0), 0U) << errors;
    EXPECT_EQ(child.Output(), "") << testing::PrintToString(args);
  }
}

TEST(RendezvousCommandTest, ChecksHowLongItHolds) {
  for (const char* hold : {"-1", "x", "5d"}) {
    Child child({}, /*without_reader=*/false, hold);
    EXPECT_EQ(child.ExitCode(), 2) << hold;
    EXPECT_NE(child.Errors().find("HVDRAY_KV_HOLD"), std::string::npos) << hold;
  }
  for (const char* hold : {"0", "0.5", "200ms", "2m"}) {
    Child child({}, /*without_reader=*/false, hold);
    EXPECT_NE(PortOf(child.ReadLine()), 0) << hold << ": " << child.Errors();
    child.Signal(SIGTERM);
    EXPECT_EQ(child.ExitCode(), 143);
  }
}

TEST(RendezvousCommandTest, ShowsItsOptions) {
  Child child({"--help"});
  EXPECT_EQ(child.ExitCode(), 0);
  const std::string help = child.Output();
  for (const char* word : {"--host", "--port", "--hosts", "--allow"}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
}

TEST(RendezvousCommandTest, EndsWhenNobodyCanReadWhereItListens) {
  Child child({}, /*without_reader=*/true);
  EXPECT_EQ(child.ExitCode(), 141);
}

}  // namespace
}  // namespace hvdray
