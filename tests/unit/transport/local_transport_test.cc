// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/local_transport.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "base/file.h"
#include "cluster/transport/this_machine.h"
#include "tests/fakes/refused_call.h"
#include "tests/fakes/stream_owner.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

TEST(ThisMachineTest, KnowsItsOwnNamesAndAddresses) {
  EXPECT_TRUE(IsThisMachine("localhost"));
  EXPECT_TRUE(IsThisMachine("LocalHost."));
  std::array<char, 256> own{};
  ASSERT_EQ(::gethostname(own.data(), own.size() - 1), 0);
  EXPECT_TRUE(IsThisMachine(std::string(own.data()) + "."));
  EXPECT_TRUE(IsThisMachine("127.0.0.1"));
  EXPECT_TRUE(IsThisMachine("127.0.1.1"));
  EXPECT_TRUE(IsThisMachine("::1"));
  EXPECT_FALSE(IsThisMachine("203.0.113.7"));
  EXPECT_FALSE(IsThisMachine("no-such-host.invalid"));
}

TEST(ThisMachineTest, ManyAreAskedAtOnceInTheirOrder) {
  std::vector<std::string> hosts;
  std::vector<bool> wanted;
  for (int i = 0; i < 100; ++i) {
    hosts.push_back(i % 3 == 0 ? "127.0.0.1" : "203.0.113.7");
    wanted.push_back(i % 3 == 0);
  }
  EXPECT_EQ(AreThisMachine(hosts, NameLookup::kSystem), wanted);
  EXPECT_EQ(AreThisMachine({"localhost", "pod-0", "127.0.0.1"}, NameLookup::kNone),
            (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(AreThisMachine({}, NameLookup::kSystem).empty());
}

TEST(LocalTransportTest, AMissingAgentIsAnErrorThatNamesHostAndPath) {
  auto loop = std::move(*Loop::Create());
  const auto transport = MakeLocalTransport(*loop, HeldProgram("/no/such/agent"));
  Status seen;
  transport->Start("localhost", [&](Result<AgentStart> start) {
    seen = std::move(start).status();
    loop->Stop();
  });
  EXPECT_TRUE(seen.ok()) << "the answer must not come from within Start()";
  loop->Run();
  EXPECT_EQ(seen.code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(seen.message().find("localhost"), std::string::npos);
  EXPECT_NE(seen.message().find("/no/such/agent"), std::string::npos);
  EXPECT_NE(seen.hint().find("put hvdray-agent beside hvdray"), std::string::npos) << seen.hint();
}

TEST(LocalTransportTest, WantOfProcessesIsNotTheAgentsFault) {
  Status seen;
  std::thread([&seen] {
    auto loop = std::move(*Loop::Create());
    const auto transport = MakeLocalTransport(*loop, HeldProgram("/bin/cat"));
    for (const long call : {SYS_clone, SYS_clone3}) ASSERT_TRUE(RefuseCall(call, EAGAIN));
    transport->Start("localhost", [&](Result<AgentStart> start) {
      seen = std::move(start).status();
      loop->Stop();
    });
    loop->Run();
  }).join();
  EXPECT_EQ(seen.code(), ErrorCode::kOutOfResources) << seen.ToString();
  EXPECT_EQ(seen.hint(), "");
}

TEST(LocalTransportTest, CarriesBytesBothWaysAndTellsHowTheCarrierEnded) {
  auto loop = std::move(*Loop::Create());
  // Any program that copies its input will do as an agent here.
  const auto transport = MakeLocalTransport(*loop, HeldProgram("/bin/cat"));
  AgentStart running;
  std::string received;
  Status ended(ErrorCode::kInternal, "not yet");
  transport->Start("localhost", [&](Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    running = std::move(start).value();
    EXPECT_GT(running.process->pid(), 1);
    running.process->OnExit([&](Status how) {
      ended = std::move(how);
      loop->Stop();
    });
    StreamFunctions handlers;
    handlers.on_data = [&](ByteView bytes) {
      received += bytes;
      if (received == "ping") loop->Post([&] { running.stream.reset(); });
    };
    StartStream(*running.stream, std::move(handlers));
    running.stream->Write("ping");
  });
  loop->Run();
  EXPECT_EQ(received, "ping");
  EXPECT_TRUE(ended.ok()) << ended.ToString();
}

// All that an agent prints before it ends.
std::string OutputOf(Loop& loop, Transport& transport) {
  AgentStart running;
  std::string received;
  transport.Start("localhost", [&](Result<AgentStart> start) {
    ASSERT_TRUE(start.ok()) << start.status().ToString();
    running = std::move(start).value();
    StreamFunctions handlers;
    handlers.on_data = [&](ByteView bytes) { received += bytes; };
    handlers.on_closed = [&](const Status&) { loop.Stop(); };
    StartStream(*running.stream, std::move(handlers));
  });
  loop.Run();
  return received;
}

TEST(LocalTransportTest, TheAgentGetsItsArguments) {
  auto loop = std::move(*Loop::Create());
  const auto transport = MakeLocalTransport(*loop, HeldProgram("/bin/echo"), {"--one", "and two"});
  EXPECT_EQ(OutputOf(*loop, *transport), "--one and two\n");
}

TEST(LocalTransportTest, AnAgentThatWasReplacedIsStillTheOneThatStarts) {
  const TempDirectory directory;
  const std::string path = directory / "agent";
  const auto install = [&path](const std::string& name) {
    const std::string script = fmt::format("#!/bin/sh\necho {}\n", name);
    ASSERT_TRUE(WriteFileAtomically(path, script, 0755).ok());
  };
  install("old");
  auto loop = std::move(*Loop::Create());
  const auto transport = MakeLocalTransport(*loop, HeldProgram(path));
  EXPECT_EQ(OutputOf(*loop, *transport), "old\n");
  install("new");
  EXPECT_EQ(OutputOf(*loop, *transport), "old\n");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(OutputOf(*loop, *transport), "old\n");
}

}  // namespace
}  // namespace hvdray
