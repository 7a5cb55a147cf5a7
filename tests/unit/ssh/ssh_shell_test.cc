// SPDX-License-Identifier: Apache-2.0
// Ways to reach a host, and ways to fail at it, on a real sshd.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/fd.h"
#include "base/file.h"
#include "base/unix_socket.h"
#include "cluster/ssh/known_hosts.h"
#include "cluster/ssh/wire_text.h"
#include "cluster/transport/command_shell.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/stream_owner.h"
#include "tests/unit/ssh/library_leaks.h"
#include "tests/unit/ssh/ssh_shell_harness.h"

namespace hvdray {
namespace {

bool Has(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

TEST_F(SshShellTest, ANewHostIsReachedAndRemembered) {
  const LoopbackSshd sshd;
  Configure(sshd);
  EXPECT_EQ(Output("echo hello"), "hello\n");
  const std::string known = ReadFile(directory_ / "known_hosts").value();
  EXPECT_EQ(known.rfind(fmt::format("[127.0.0.1]:{} ssh-ed25519 ", sshd.port()), 0), 0u) << known;
  EXPECT_EQ(Output("echo again"), "again\n");
  EXPECT_EQ(ReadFile(directory_ / "known_hosts").value(), known);
}

TEST_F(SshShellTest, AHostKnownByItsEcdsaKeyIsAskedForThatOne) {
  const LoopbackSshd sshd;
  Configure(sshd, "StrictHostKeyChecking yes");
  const std::string key = ReadFile(sshd.directory() / "host_ecdsa.pub").value();
  ASSERT_TRUE(WriteFileAtomically(directory_ / "known_hosts",
                                  fmt::format("[127.0.0.1]:{} {}", sshd.port(), key))
                  .ok());
  EXPECT_EQ(Output("echo hello"), "hello\n");
}

TEST_F(SshShellTest, AHostKnownByRsaOnlyIsLeftToTheSystemsSsh) {
  const LoopbackSshd sshd;
  Configure(sshd);
  MakeSshKey(directory_ / "rsa", "rsa");
  const std::string key = ReadFile(directory_ / "rsa.pub").value();
  ASSERT_TRUE(WriteFileAtomically(directory_ / "known_hosts",
                                  fmt::format("[127.0.0.1]:{} {}", sshd.port(), key))
                  .ok());
  EXPECT_EQ(RunToFail().code(), ErrorCode::kNotSupported);
}

TEST_F(SshShellTest, ARevokedKeyOrACommandThatNamesKeysIsLeftToTheSystemsSsh) {
  const LoopbackSshd sshd;
  const std::string revoked = sshd.directory() / "host_ed25519.pub";
  for (const std::string& setting :
       {"RevokedHostKeys " + revoked, std::string("KnownHostsCommand /bin/false"),
        std::string("VerifyHostKeyDNS yes"), std::string("Ciphers aes256-gcm@openssh.com")}) {
    Configure(sshd, setting);
    shell_.reset();  // what it learnt of the configuration is gone with it
    EXPECT_EQ(RunToFail().code(), ErrorCode::kNotSupported) << setting;
    EXPECT_NE(::access((directory_ / "known_hosts").c_str(), F_OK), 0)
        << "written under " << setting;
  }
}

TEST_F(SshShellTest, TheAlgorithmsThatTheConfigurationLeavesAreUsed) {
  const LoopbackSshd sshd;
  Configure(sshd,
            "Ciphers aes256-ctr\nMACs hmac-sha2-512\nKexAlgorithms ecdh-sha2-nistp384\n"
            "HostKeyAlgorithms ecdsa-sha2-nistp256");
  EXPECT_EQ(Output("echo hello"), "hello\n");
  const std::string known = ReadFile(directory_ / "known_hosts").value();
  EXPECT_NE(known.find(" ecdsa-sha2-nistp256 "), std::string::npos) << known;
}

TEST_F(SshShellTest, AHostOfACertificateAuthorityIsLeftToTheSystemsSsh) {
  const LoopbackSshd sshd;
  Configure(sshd);
  const std::string line = "@cert-authority * " + ReadFile(sshd.directory() / "client.pub").value();
  ASSERT_TRUE(WriteFileAtomically(directory_ / "known_hosts", line).ok());
  EXPECT_EQ(RunToFail().code(), ErrorCode::kNotSupported);
  EXPECT_EQ(ReadFile(directory_ / "known_hosts").value(), line) << "its plain key is not noted";
}

TEST_F(SshShellTest, KeysAreNotTriedWhereTheConfigurationForbidsThem) {
  const LoopbackSshd sshd;
  Configure(sshd, "PubkeyAuthentication no");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(Has(status, "no key to try")) << status.message();
  EXPECT_NE(status.hint().find("PubkeyAuthentication"), std::string::npos) << status.hint();
}

TEST_F(SshShellTest, AnAgentThatNeverAnswersIsNamedAndDoesNotCostTheLogin) {
  const LoopbackSshd sshd;
  const std::string path = directory_ / "silent";
  const UniqueFd silent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(path).value();
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(silent.get(), 8), 0);
  Configure(sshd, "IdentityAgent " + path);
  EXPECT_EQ(Output("echo in"), "in\n") << "the key file is enough";
  shell_.reset();
  Configure(sshd.port(), directory_ / "none", "IdentityAgent " + path);
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed) << status.ToString();
  EXPECT_TRUE(Has(status, "ssh-agent " + path + " (no answer)")) << status.message();
  EXPECT_NE(status.hint().find("SSH_AUTH_SOCK"), std::string::npos) << status.hint();
}

TEST_F(SshShellTest, AHostThatTakesNoKeysGetsNoHintAboutKeys) {
  const LoopbackSshd sshd("PubkeyAuthentication no\nPasswordAuthentication yes");
  Configure(sshd);
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_EQ(status.hint().find("ssh-copy-id"), std::string::npos) << status.hint();
}

TEST_F(SshShellTest, AChangedHostKeyIsRefusedByFileAndLine) {
  const LoopbackSshd sshd;
  Configure(sshd);
  const std::string old = ReadFile(sshd.directory() / "client.pub").value();
  ASSERT_TRUE(WriteFileAtomically(directory_ / "known_hosts",
                                  fmt::format("# old\n[127.0.0.1]:{} {}", sshd.port(), old))
                  .ok());
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kHostKeyRejected);
  EXPECT_TRUE(Has(status, directory_ / "known_hosts:2")) << status.message();
  EXPECT_TRUE(Has(status, "SHA256:")) << status.message();
}

TEST_F(SshShellTest, AnUnknownHostIsRefusedUnderStrictChecking) {
  const LoopbackSshd sshd;
  Configure(sshd);
  options_.overrides.host_key_policy = HostKeyPolicy::kYes;
  EXPECT_EQ(RunToFail().code(), ErrorCode::kHostKeyRejected);
  EXPECT_NE(::access((directory_ / "known_hosts").c_str(), F_OK), 0) << "nothing was written";
}

TEST_F(SshShellTest, AWrongKeyIsNamedInTheError) {
  const LoopbackSshd sshd;
  MakeSshKey(directory_ / "wrong");
  Configure(sshd.port(), directory_ / "wrong");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(Has(status, "tried " + (directory_ / "wrong"))) << status.message();
  EXPECT_TRUE(NamesFacts(status.message(), {"host accepts", "publickey"})) << status.message();
  EXPECT_TRUE(status.hint().starts_with(fmt::format("ssh-copy-id -p {} ", sshd.port())))
      << status.hint();
}

TEST_F(SshShellTest, TheSecondKeyIsTriedWhenTheFirstIsRefused) {
  const LoopbackSshd sshd;
  MakeSshKey(directory_ / "wrong", "ecdsa");
  Configure(sshd, "IdentityFile " + (directory_ / "wrong"));
  EXPECT_EQ(Output("echo in"), "in\n");
}

TEST_F(SshShellTest, TheHostsLimitOfTriesIsARefusal) {
  const LoopbackSshd sshd("MaxAuthTries 2");
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    MakeSshKey(directory_ / fmt::format("wrong{}", i));
    lines += fmt::format("IdentityFile {}\n", directory_ / fmt::format("wrong{}", i));
  }
  Configure(sshd, lines);
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(Has(status, "Too many authentication failures")) << status.message();
}

TEST_F(SshShellTest, AnUnknownUserFailsToAuthenticate) {
  const LoopbackSshd sshd;
  Configure(sshd);
  const Status status = RunToFail("no-such-user@node7");
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(Has(status, "as no-such-user")) << status.message();
}

TEST_F(SshShellTest, AnEcdsaKeyGetsInToo) {
  const LoopbackSshd sshd;
  MakeSshKey(directory_ / "ec", "ecdsa");
  const std::string key = ReadFile(directory_ / "ec.pub").value();
  ASSERT_TRUE(WriteFileAtomically(sshd.directory() / "authorized_keys", key).ok());
  Configure(sshd.port(), directory_ / "ec");
  EXPECT_EQ(Output("echo in"), "in\n");
}

TEST_F(SshShellTest, AnEncryptedKeyNeedsAnAgentAndWorksWithOne) {
  const LoopbackSshd sshd;
  MakeSshKey(directory_ / "locked", "ed25519", "secret");
  const std::string key = ReadFile(directory_ / "locked.pub").value();
  ASSERT_TRUE(WriteFileAtomically(sshd.directory() / "authorized_keys", key).ok());
  Configure(sshd.port(), directory_ / "locked");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAuthenticationFailed);
  EXPECT_TRUE(NamesFacts(status.message(), {"locked", "encrypted", "agent"})) << status.message();
  EXPECT_EQ(status.hint(), "ssh-add " + (directory_ / "locked"));

  const LoopbackAgent agent;
  agent.Add(directory_ / "locked", "secret");
  for (const char* only : {"yes", "no"}) {
    Configure(sshd.port(), directory_ / "locked",
              fmt::format("IdentityAgent {}\nIdentitiesOnly {}", agent.socket(), only));
    EXPECT_EQ(Output("echo in"), "in\n");
  }
}

TEST_F(SshShellTest, OtherKeysOfTheAgentAreUsedUnlessIdentitiesOnly) {
  const LoopbackSshd sshd;
  const LoopbackAgent agent;
  agent.Add(sshd.directory() / "client");
  Configure(sshd.port(), directory_ / "none", "IdentityAgent " + agent.socket());
  EXPECT_EQ(Output("echo in"), "in\n");
  Configure(sshd.port(), directory_ / "none",
            "IdentitiesOnly yes\nIdentityAgent " + agent.socket());
  EXPECT_TRUE(Has(RunToFail(), "no key to try"));
}

TEST_F(SshShellTest, AKeyThatOthersCanReadIsRefusedAsSshDoes) {
  const LoopbackSshd sshd;
  const std::string key = sshd.directory() / "client";
  ::chmod(key.c_str(), 0640);
  Configure(sshd);
  const Status skipped = RunToFail();
  EXPECT_TRUE(Has(skipped, "mode 0640")) << skipped.message();
  EXPECT_EQ(skipped.hint(), "chmod 600 " + key);
  options_.overrides.identity_file = key;
  shell_.reset();
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kSpecInvalid);
  EXPECT_TRUE(Has(status, key)) << status.message();
}

TEST_F(SshShellTest, AKeyLeftOutForLibssh2sSakePointsToTheSystemsSsh) {
  const LoopbackSshd sshd;
  MakeSshKey(directory_ / "rsa", "rsa");
  MakeSshKey(directory_ / "wrong");
  Configure(sshd.port(), directory_ / "wrong", "IdentityFile " + (directory_ / "rsa"));
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kNotSupported);
  EXPECT_TRUE(Has(status, "rsa (RSA key)")) << status.message();
}

TEST_F(SshShellTest, HostsBehindAJumpAreLeftToTheSystemsSshBeforeAnyConnection) {
  const LoopbackListener nobody;
  Configure(nobody.port(), directory_ / "none", "ProxyJump bastion");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kNotSupported);
  EXPECT_TRUE(Has(status, "proxyjump bastion")) << status.message();
}

TEST_F(SshShellTest, ARefusedPortIsNamed) {
  const int port = LoopbackListener().port();
  Configure(port, directory_ / "none");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kHostRefused);
  EXPECT_TRUE(Has(status, fmt::format("127.0.0.1:{}", port))) << status.message();
}

TEST_F(SshShellTest, AServerThatSaysNothingIsGivenUpAtTheDeadline) {
  const LoopbackListener silent;
  Configure(silent.port(), directory_ / "none");
  options_.connect_timeout = std::chrono::seconds(2);  // `ssh -G` has no longer
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kConnectTimeout);
  EXPECT_TRUE(Has(status, "SSH handshake")) << status.message();
}

TEST_F(SshShellTest, ConnectTimeoutOfTheConfigurationHolds) {
  const LoopbackListener silent;
  Configure(silent.port(), directory_ / "none", "ConnectTimeout 1");
  EXPECT_EQ(RunToFail().code(), ErrorCode::kConnectTimeout);
}

TEST_F(SshShellTest, AServerThatHangsUpBeforeWeAreInIsBusy) {
  const LoopbackListener listener;
  Configure(listener.port(), directory_ / "none");
  // The reset of a full backlog of sshd's, its own words, a version and no more.
  for (const char* words : {"", "Exceeded MaxStartups\r\n", "Not allowed at this time\r\n",
                            "SSH-2.0-OpenSSH_9.2\r\n"}) {
    std::thread server([&] {
      const UniqueFd peer = listener.Accept();
      (void)WriteAll(peer.get(), words);
    });
    const Status status = RunToFail();
    server.join();
    EXPECT_EQ(status.code(), ErrorCode::kHostBusy) << words << status.message();
    EXPECT_NE(status.hint().find("MaxStartups"), std::string::npos);
  }
}

TEST_F(SshShellTest, AServerThatHangsUpAfterWordsOfItsOwnIsNoSsh) {
  const LoopbackListener listener;
  std::thread server([&] {
    const UniqueFd peer = listener.Accept();
    (void)WriteAll(peer.get(), "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  Configure(listener.port(), directory_ / "none");
  const Status status = RunToFail();
  server.join();
  EXPECT_EQ(status.code(), ErrorCode::kHandshakeFailed);
  EXPECT_TRUE(Has(status, "HTTP/1.1 400")) << status.message();
}

TEST_F(SshShellTest, AHostThatSaysThatTheKeyExchangeFailedIsLeftToTheSystemsSsh) {
  const LoopbackListener listener;
  std::thread server([&] {
    const UniqueFd peer = listener.Accept();
    std::string packet(1, '\1');  // SSH_MSG_DISCONNECT
    AppendSshUint32(packet, 3);   // SSH_DISCONNECT_KEY_EXCHANGE_FAILED
    AppendSshString(packet, "no matching cipher");
    AppendSshString(packet, "");
    const size_t padding = 4 + (8 - (packet.size() + 9) % 8) % 8;
    std::string frame;
    AppendSshUint32(frame, static_cast<uint32_t>(packet.size() + padding + 1));
    frame += static_cast<char>(padding) + packet + std::string(padding, '\0');
    (void)WriteAll(peer.get(), "SSH-2.0-x\r\n" + frame);
    char byte = 0;
    while (::read(peer.get(), &byte, 1) > 0) {
    }
  });
  Configure(listener.port(), directory_ / "none");
  const Status status = RunToFail();
  server.join();
  EXPECT_EQ(status.code(), ErrorCode::kNotSupported);
  EXPECT_TRUE(Has(status, "no matching cipher")) << status.message();
}

TEST_F(SshShellTest, AServerOfAnotherProtocolIsNoSsh) {
  const LoopbackListener listener;
  std::thread server([&] {
    const UniqueFd peer = listener.Accept();
    (void)WriteAll(peer.get(), "SSH-2.0-x\r\n" + std::string(5000, 'A'));
    char byte = 0;
    while (::read(peer.get(), &byte, 1) > 0) {
    }
  });
  Configure(listener.port(), directory_ / "none");
  EXPECT_EQ(RunToFail().code(), ErrorCode::kHandshakeFailed);
  server.join();
}

TEST_F(SshShellTest, ANameWithoutAddressIsAnUnknownHost) {
  Configure(22, directory_ / "none", "HostName no-such-host.invalid");
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kUnknownHost);
  EXPECT_TRUE(Has(status, "no-such-host.invalid")) << status.message();
}

TEST_F(SshShellTest, AHostThatOpensNoChannelDidNotStartTheCommand) {
  const LoopbackSshd sshd("MaxSessions 0");
  Configure(sshd);
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kAgentStartFailed);
  EXPECT_TRUE(Has(status, "open a channel")) << status.message();
}

TEST_F(SshShellTest, KeysMayChangeInTheMiddleOfTheBytes) {
  const LoopbackSshd sshd("RekeyLimit 1M");
  Configure(sshd);
  // One thread makes the first key, the loop's the others.
  pool_ = std::make_unique<BlockingPool>(*loop_, 1);
  const auto allow = [] {
    AllowRekeyLeaks();
    return 0;
  };
  pool_->Run<int>(allow, [](int) {});
  Follow(Run("cat"));
  AllowRekeyLeaks();
  stream_->Write(std::string(size_t{8} << 20, 'x'));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return got_.size() == size_t{8} << 20 || closed_; }));
  EXPECT_FALSE(closed_.has_value()) << closed_->ToString();
  EXPECT_EQ(got_.find_first_not_of('x'), std::string::npos);
  EndRekeyLeaks();
}

/// As --ssh-transport auto: the library, and the system's ssh where the library can't.
class SshFallbackTest : public SshShellTest {
 protected:
  void SetUp() override {
    SshShellTest::SetUp();
    const ShellArgv argv = [this](const std::string& host, const std::string& command) {
      OpensshOptions ssh;
      ssh.config_file = directory_ / "config";
      ssh.strict_host_key_checking = "accept-new";
      ++runs_of_ssh_;
      return OpensshArgv(ssh, host, command);
    };
    openssh_ = MakeCommandShell(*loop_, "ssh", argv, errors_, ChildEnd::kDropped);
    library_ = MakeLibssh2Shell(*loop_, *pool_, options_);
    shell_ = MakeFallbackShell(*library_, *openssh_);
  }
  void TearDown() override { shell_.reset(); }

  int runs_of_ssh_ = 0;
  RemoteStderr errors_;
  std::unique_ptr<RemoteShell> openssh_;
  std::unique_ptr<RemoteShell> library_;
};

TEST_F(SshFallbackTest, TheLibraryIsEnoughForAnOrdinaryHost) {
  const LoopbackSshd sshd;
  Configure(sshd);
  EXPECT_EQ(Output("echo in"), "in\n");
  EXPECT_EQ(runs_of_ssh_, 0);
}

TEST_F(SshFallbackTest, AnAgentThatHoldsACertificateIsLeftToTheSystemsSsh) {
  const LoopbackAgent agent;
  MakeSshKey(directory_ / "authority");
  MakeSshKey(directory_ / "user");
  ASSERT_TRUE(RunToEnd({"ssh-keygen", "-q", "-s", directory_ / "authority", "-I", "me", "-n",
                        CurrentSshUser(Environment()).name, directory_ / "user.pub"}));
  agent.Add(directory_ / "user");
  for (const char* file : {"user", "user.pub", "user-cert.pub"}) {
    ASSERT_EQ(::unlink((directory_ / file).c_str()), 0);
  }
  const LoopbackSshd sshd("TrustedUserCAKeys " + (directory_ / "authority.pub"));
  Configure(sshd.port(), directory_ / "none", "IdentityAgent " + agent.socket());
  EXPECT_EQ(Output("echo in"), "in\n") << testing::PrintToString(errors_.LinesOf("node7"));
  EXPECT_EQ(runs_of_ssh_, 1);
}

struct HardenedHost {
  std::string name;
  std::string settings;
};

class SshHardenedHostTest : public SshFallbackTest,
                            public testing::WithParamInterface<HardenedHost> {};

TEST_P(SshHardenedHostTest, IsReachedByTheSystemsSsh) {
  MakeSshKey(directory_ / "host_rsa", "rsa");
  const LoopbackSshd sshd(fmt::format(fmt::runtime(GetParam().settings), directory_ / "host_rsa"));
  Configure(sshd);
  EXPECT_EQ(Output("echo in"), "in\n") << testing::PrintToString(errors_.LinesOf("node7"));
  EXPECT_EQ(runs_of_ssh_, 1);
}

TEST_P(SshHardenedHostTest, IsNotReachedByTheLibraryAndTheErrorSaysWhy) {
  MakeSshKey(directory_ / "host_rsa", "rsa");
  const LoopbackSshd sshd(fmt::format(fmt::runtime(GetParam().settings), directory_ / "host_rsa"));
  Configure(sshd);
  shell_ = MakeLibssh2Shell(*loop_, *pool_, options_);
  const Status status = RunToFail();
  EXPECT_EQ(status.code(), ErrorCode::kNotSupported);
  EXPECT_TRUE(Has(status, "in common")) << status.message();
  EXPECT_EQ(status.hint(), "--ssh-transport openssh");
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SshHardenedHostTest,
    testing::Values(
        HardenedHost{"EtmMacsOnly",
                     "MACs hmac-sha2-512-etm@openssh.com,hmac-sha2-256-etm@openssh.com\n"
                     "Ciphers aes256-ctr"},
        HardenedHost{"GcmOnly", "Ciphers aes256-gcm@openssh.com,aes128-gcm@openssh.com"},
        HardenedHost{"ChachaOnly", "Ciphers chacha20-poly1305@openssh.com"},
        HardenedHost{"NewKeyExchangeOnly", "KexAlgorithms sntrup761x25519-sha512@openssh.com"},
        HardenedHost{"RsaHostKeyOnly", "HostKey {}\nHostKeyAlgorithms rsa-sha2-512,rsa-sha2-256"}),
    [](const auto& host) { return host.param.name; });

class SshManyTest : public SshShellTest {
 protected:
  /// Starts `count` commands at once, "hostN" each; returns how many wrote their answer.
  void RunMany(int count) {
    int answered = 0;
    std::vector<AgentStart> running(static_cast<size_t>(count));
    std::vector<std::string> got(running.size());
    std::vector<int> ended;
    for (size_t i = 0; i < running.size(); ++i) {
      shell().Run(fmt::format("host{}", i), fmt::format("echo {}", i),
                  [&, i](Result<AgentStart> start) {
                    ++answered;
                    ASSERT_TRUE(start.ok()) << start.status().ToString();
                    running[i] = std::move(*start);
                    running[i].process->OnExit([&, i](const Status& how) {
                      EXPECT_TRUE(how.ok()) << how.ToString();
                      ended.push_back(static_cast<int>(i));
                    });
                    StartStream(*running[i].stream,
                                {.on_data = [&, i](ByteView bytes) { got[i] += bytes; }});
                  });
    }
    ASSERT_TRUE(RunUntil(*loop_, [&] { return ended.size() == running.size(); }))
        << answered << " answered, " << ended.size() << " ended";
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], fmt::format("{}\n", i));
  }
};

TEST_F(SshManyTest, TenSessionsAtOnceAllRunAndOneLineIsRemembered) {
  LoopbackSshd sshd("MaxStartups 10:30:100");
  Configure(sshd);
  RunMany(10);
  const std::string known = ReadFile(directory_ / "known_hosts").value();
  EXPECT_EQ(std::count(known.begin(), known.end(), '\n'), 1) << known;
  EXPECT_EQ(sshd.TakeLog().find("MaxStartups"), std::string::npos) << "none was dropped";
}

TEST_F(SshManyTest, ThoseThatAFullServerDropsAreBusy) {
  LoopbackSshd sshd("MaxStartups 1");
  Configure(sshd);
  // A stranger that never logs in takes the only place.
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(sshd.port()));
  const UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  char byte = 0;
  ASSERT_EQ(::read(stranger.get(), &byte, 1), 1) << "its greeting: it is inside";
  EXPECT_EQ(RunToFail().code(), ErrorCode::kHostBusy);
}

TEST_F(SshManyTest, DestroyingTheShellCallsOffWhatIsOnItsWay) {
  const LoopbackListener silent;
  Configure(silent.port(), directory_ / "none");
  options_.connect_timeout = std::chrono::minutes(10);
  bool is_called = false;
  for (int i = 0; i < 20; ++i) {
    shell().Run(fmt::format("host{}", i), "true",
                [&](const Result<AgentStart>&) { is_called = true; });
  }
  // One at least is in the middle of it.
  pollfd waiting = {.fd = silent.fd(), .events = POLLIN, .revents = 0};
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ::poll(&waiting, 1, 0) == 1; }));
  shell_.reset();
  pool_.reset();  // joins: would take ten minutes
  Settle(*loop_);
  EXPECT_FALSE(is_called);
}

TEST_F(SshManyTest, StreamsOutliveTheShell) {
  const LoopbackSshd sshd;
  Configure(sshd);
  Follow(Run("cat"));
  shell_.reset();
  stream_->Write("still here");
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got_ == "still here"; }));
}

}  // namespace
}  // namespace hvdray
