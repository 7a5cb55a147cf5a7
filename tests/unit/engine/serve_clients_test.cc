// SPDX-License-Identifier: Apache-2.0
// Clients of `hvdray serve --control PATH --linger S` one after the other, with the real launcher
// over an agent that the test plays.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/unix_socket.h"
#include "launcher/engine/open_job.h"
#include "tests/fakes/fake_transport.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

UniqueFd ConnectTo(const std::string& path) {
  UniqueFd fd;
  EXPECT_EQ(ConnectUnix(path, fd), 0);
  return fd;
}

// An object of one byte, behind the hello of the client that puts it.
void PutObject(int socket, int number, const std::string& hello = "") {
  const std::string put =
      "{\"type\":\"put\",\"object\":" + std::to_string(number) + ",\"blob\":1}\nx";
  EXPECT_TRUE(WriteAll(socket, hello + put).ok());
}

// What has come to a client.
std::string Heard(int socket) {
  std::string bytes(size_t{1} << 16, '\0');
  const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return bytes.substr(0, n > 0 ? static_cast<size_t>(n) : 0);
}

TEST(ServeClientsTest, AProblemWithAnObjectOfAClientThatHasGoneIsNotItsSuccessors) {
  const std::string hello = "{\"type\":\"hello\",\"protocol\":1}\n";
  const TempDirectory directory;
  auto loop = std::move(*Loop::Create());
  FakeTransport transport(*loop);
  transport.on_agent = [](const std::string&, FakeAgent& agent) { agent.SayHello(); };
  LaunchPlan plan;
  plan.hosts = {{"a", 1}};
  plan.is_remote = {false};
  plan.ranks = AssignRanks(plan.hosts, 1, 1).value();
  plan.spec.np.Set(1, "test");
  plan.spec.has_channel.Set(true, "test");
  plan.spec.is_quiet.Set(true, "test");
  plan.job_id = "job-of-clients-" + std::to_string(::getpid());
  plan.began = loop->Now();
  ServeOptions options;
  options.path = directory / "control";
  options.linger = std::chrono::minutes(10);
  options.job_id = plan.job_id;
  Trace trace(plan.began, {"a"}, false);
  auto launcher = OpenJob(*loop, {transport}, trace, plan, std::move(options));
  ASSERT_TRUE(launcher.ok()) << launcher.status().ToString();

  UniqueFd client = ConnectTo(directory / "control");
  PutObject(client.get(), 1, hello);
  int step = 0;
  std::string heard;
  const Watch steps = loop->Every(std::chrono::milliseconds(2), [&] {
    const auto agent = transport.agents.find("a");
    if (agent == transport.agents.end()) return;
    const size_t pieces = agent->second->All<wire::ObjectPiece>().size();
    const size_t drops = agent->second->All<wire::DropObject>().size();
    if (step == 0 && pieces == 1) {
      client.Reset();
      ++step;
    } else if (step == 1 && drops == 1) {
      client = ConnectTo(directory / "control");
      PutObject(client.get(), 1, hello);
      PutObject(client.get(), 2);
      ++step;
    } else if (step == 2 && pieces == 3) {
      agent->second->Send(0, wire::ObjectProblem{1, ENOMEM});  // of the first client
      const Generation repeated = agent->second->received.back().generation;
      agent->second->Send(repeated, wire::ObjectProblem{2, ENOMEM});
      ++step;
    } else if (step == 3) {
      heard += Heard(client.get());
      if (heard.find("refused") == std::string::npos) return;
      (*launcher)->StopBy(SIGTERM);
      ++step;
    }
    for (auto& [host, one] : transport.agents) {
      if (!one->closed.empty()) transport.Exit(host, Status());
    }
  });
  const Watch limit = loop->After(std::chrono::seconds(30), [&] {
    ADD_FAILURE() << "step " << step << ", heard " << heard;
    (*launcher)->StopBy(SIGTERM);
  });
  (void)(*launcher)->Run();
  EXPECT_NE(heard.find("can't hold object 2"), std::string::npos) << heard;
  EXPECT_EQ(heard.find("can't hold object 1"), std::string::npos) << heard;
}

}  // namespace
}  // namespace hvdray
