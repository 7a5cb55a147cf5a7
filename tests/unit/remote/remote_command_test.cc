// SPDX-License-Identifier: Apache-2.0
// The scripts run in the real shells of this machine; what ssh adds is in cluster_access_test.py.
#include "cluster/transport/remote_command.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "cluster/transport/foreground_process.h"
#include "cluster/transport/rsync_words.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

/// A home directory with start-up files, and a shell there.
class RemoteCommandTest : public testing::Test {
 protected:
  RemoteCommandTest() {
    home_ = std::filesystem::path(testing::TempDir()) / "remote_command_home";
    std::filesystem::remove_all(home_);
    std::filesystem::create_directories(home_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(home_ / name) << text;
  }

  CapturedRun Run(const std::string& shell_line, const std::string& input = "") {
    const Words argv = {"env", "-i",      "HOME=" + home_.string(), "PATH=/usr/bin:/bin", "/bin/sh",
                        "-c",  shell_line};
    Result<CapturedRun> run = RunForOutput(argv, input, std::chrono::seconds(60));
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    return run.ok() ? std::move(run).value() : CapturedRun();
  }

  std::filesystem::path home_;
};

TEST_F(RemoteCommandTest, ACommandHasTheLoginsEnvironmentAndNothingOfItsNoise) {
  Write(".profile", "echo noise; echo noise >&2; read answer");  // Nor reads it ~/.bashrc.
  Write(".bashrc",
        "case $- in *i*) ;; *) return ;; esac\n"
        "echo more noise\nexport MADE=by-bashrc\nshown() { echo \"function $1\"; }\n");
  const CapturedRun run =
      Run(LoginLine({.text = "echo $MADE; shown 1; cat; echo error >&2; exit 7"}), "input\n");
  EXPECT_EQ(run.exit_code, 7);
  EXPECT_EQ(run.output, "by-bashrc\nfunction 1\ninput\n");
  EXPECT_EQ(run.error_lines, Words{"error"});
}

TEST_F(RemoteCommandTest, ATextMayHoldAnything) {
  const Words words = {"printf", "%s|", "a b", "it's", "\"$HOME\"", "new\nline", "*", "\\"};
  const CapturedRun run = Run(LoginLine({.text = QuotedWords(words)}));
  EXPECT_EQ(run.output, "a b|it's|\"$HOME\"|new\nline|*|\\|");
  EXPECT_EQ(run.exit_code, 0);
}

TEST_F(RemoteCommandTest, ACommandForRayHasTheTokenOfItsClusterIfThereIsOne) {
  const std::string show = TextForRay("c", "echo \"$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH\"");
  EXPECT_EQ(Run(LoginLine({.text = show})).output, " \n");
  std::filesystem::create_directories(home_ / ".hvdray/clusters/c");
  Write(".hvdray/clusters/c/token", "x");
  const std::string path = (home_ / ".hvdray/clusters/c/token").string();
  EXPECT_EQ(Run(LoginLine({.text = show})).output, "token " + path + "\n");
  Write(".bashrc", "export RAY_AUTH_MODE=disabled");
  EXPECT_EQ(Run(LoginLine({.text = show})).output, "disabled " + path + "\n") << "the user's own";
}

TEST_F(RemoteCommandTest, ACommandForRayHasTheAddressOfItsClusterAmongOthers) {
  // Named and marked as raylets are; another cluster's is first, and one has a name that begins so.
  const std::string raylet =
      "HVDRAY_NODE=$1/h bash -c 'exec -a /x/raylet/raylet sh -c \"read x\" raylet "
      "--gcs-address=10.0.0.1:'$2 <>hold >/dev/null 2>&1 & all=\"$all $!\"; ";
  const std::string starts =
      "cd; mkfifo hold; start() { " + raylet +
      "}; start b 1; start c-2 2; start c 3; "
      "for p in $all; do until grep -qzx /x/raylet/raylet /proc/$p/cmdline; do :; done; done; ";
  const auto told = [&](const std::string& cluster) {
    return Run(starts + "(" + LoginLine({.text = TextForRay(cluster, "echo $RAY_ADDRESS")}) +
               ") 2>&1; kill $all; rm hold")
        .output;
  };
  EXPECT_EQ(told("c"), "10.0.0.1:3\n");
  EXPECT_EQ(told("c-2"), "10.0.0.1:2\n");
  EXPECT_EQ(told("d"),
            "hvdray: no Ray of cluster d runs here; what looks for one finds that of another "
            "cluster\n\n");
  Write(".bashrc", "export RAY_ADDRESS=mine");
  EXPECT_EQ(told("c"), "mine\n");
}

TEST_F(RemoteCommandTest, SignalsOfTheCommandBecomeItsCode) {
  EXPECT_EQ(Run(LoginLine({.text = "sh -c 'kill -TERM $$'"})).exit_code, 128 + 15);
}

TEST_F(RemoteCommandTest, WhatTheCommandLeavesInTheBackgroundDoesNotHoldTheConnection) {
  const CapturedRun run = Run(LoginLine({.text = "echo done"}));
  EXPECT_EQ(run.output, "done\n") << "and not after the guard's pause";
}

TEST_F(RemoteCommandTest, ACommandEndsWithTheConnection) {
  // The parent of the login line is sshd's process; here a shell that ends before the command.
  const std::string line = LoginLine({.text = "echo $$ >~/pid; sleep 1000"});
  const std::string sshd = "setsid sh -c " + QuotedWords(Words{line}) +
                           " >/dev/null 2>&1 </dev/null & "
                           "while [ ! -s ~/pid ]; do sleep 0.05; done; cat ~/pid";
  const CapturedRun run = Run(sshd);
  const std::string gone = "while kill -0 " + run.output.substr(0, run.output.find('\n')) +
                           " 2>/dev/null; do sleep 0.05; done; echo gone";
  EXPECT_EQ(Run(gone).output, "gone\n");
}

TEST(RemoteCommandWordsTest, ACommandInAContainerRunsThroughItsProgram) {
  const Words docker = LoginArgv({.text = "x", .container = "ray", .container_program = "podman"});
  EXPECT_EQ(Words(docker.begin(), docker.begin() + 5),
            (Words{"podman", "exec", "-i", "ray", "/bin/sh"}));
  const Words terminal = LoginArgv({.text = "x", .has_terminal = true, .container = "ray"});
  EXPECT_EQ(Words(terminal.begin(), terminal.begin() + 4), (Words{"docker", "exec", "-it", "ray"}));
}

TEST(RemoteCommandWordsTest, KeepersRunATextAndStay) {
  EXPECT_EQ(KeptText(TerminalKeeper::kTmux, "a 'b'"),
            "tmux new-session -d bash -c 'a '\"'\"'b'\"'\"'\nexec bash'");
  EXPECT_TRUE(KeptText(TerminalKeeper::kScreen, "a").starts_with("screen -L -dm bash -c "));
  EXPECT_EQ(AttachText(TerminalKeeper::kTmux, /*is_new=*/true), "tmux new-session");
  EXPECT_EQ(AttachText(TerminalKeeper::kScreen, /*is_new=*/false), "screen -xRR");
}

TEST(RemoteCommandWordsTest, AForwardedPortIsOneOrTwoNumbers) {
  EXPECT_EQ(LocalForward("8265").value(), "127.0.0.1:8265:127.0.0.1:8265");
  EXPECT_EQ(LocalForward("9000:8265").value(), "127.0.0.1:9000:127.0.0.1:8265");
  for (const char* wrong : {"", "x", "0", "65536", "1:", ":1", "1:2:3", "-1", "1:host:2"}) {
    EXPECT_EQ(LocalForward(wrong).status().code(), ErrorCode::kUsage) << wrong;
  }
}

TEST(RsyncArgvTest, RsyncIsGivenOurSshAndPathsThatAreNoOptions) {
  OpensshOptions ssh;
  ssh.proxy_command = "nc 'a b' %h";
  ssh.user = "ann";
  const Words up = RsyncArgv({.source = "-x:y",
                              .target = "~/data/in",
                              .host = "fe80::1",
                              .excludes = {"*.o"},
                              .filters = {".gitignore"},
                              .makes_parent = true},
                             ssh);
  EXPECT_EQ(up[0], "rsync");
  EXPECT_NE(up[2].find("--rsh='ssh' '-T'"), std::string::npos) << up[2];
  EXPECT_NE(up[2].find("'ProxyCommand=nc ''a b'' %h'"), std::string::npos) << up[2];
  EXPECT_EQ(Words(up.begin() + 3, up.end()),
            (Words{"--exclude=*.o", "--filter=dir-merge,- .gitignore",
                   "--rsync-path=mkdir -p 'data' && rsync", "--", "./-x:y", "[fe80::1]:data/in"}));
  const Words down =
      RsyncArgv({.source = "~", .target = "out", .is_down = true, .host = "h"}, OpensshOptions());
  EXPECT_EQ(Words(down.end() - 3, down.end()), (Words{"--", "h:./", "./out"}));
  const Words here = RsyncArgv({.source = "/a", .target = "/b"}, ssh);
  EXPECT_EQ(here, (Words{"rsync", "-az", "--", "/a", "/b"}));
}

TEST(RsyncArgvTest, AHostWithoutRsyncIsTold) {
  EXPECT_TRUE(SaysRsyncIsMissing(127, {"bash: line 1: rsync: command not found"}));
  EXPECT_FALSE(SaysRsyncIsMissing(23, {"rsync: link_stat failed: No such file"}));
}

}  // namespace
}  // namespace hvdray
