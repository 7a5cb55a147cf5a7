// SPDX-License-Identifier: Apache-2.0
// What a command line tells about a program. Not here: whether the program exists.
#include "base/command_words.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

namespace hvdray {
namespace {

TEST(IsPythonTest, OnlyTheInterpretersOwnNamesCount) {
  for (const char* name : {"python", "python3", "python3.11", "/usr/bin/python3", "./python"}) {
    EXPECT_TRUE(IsPython(name)) << name;
  }
  for (const char* name :
       {"", "python_train.sh", "python2", "python3.", "python3.11-config", "python3.11.2",
        "python/", "/opt/python3/train", "pythonw", "python-train", "pypy3", "Python"}) {
    EXPECT_FALSE(IsPython(name)) << name;
  }
}

TEST(IsAssignmentTest, IsWhatAShellTakesForOne) {
  for (const char* word : {"A=1", "A=", "_x9=a=b", "PATH=/a:/b"}) {
    EXPECT_TRUE(IsAssignment(word)) << word;
  }
  for (const char* word : {"", "A", "=1", "9A=1", "A-B=1", "./a=b", "--a=b"}) {
    EXPECT_FALSE(IsAssignment(word)) << word;
  }
}

struct ScriptRow {
  std::vector<std::string> command;
  size_t script;
};

TEST(PythonScriptOfTest, IsTheFirstWordThatPythonDoesNotTakeItself) {
  const ScriptRow rows[] = {
      {{"python3", "train.py", "-x"}, 1},
      {{"python3", "-u", "train.py"}, 2},
      {{"python3", "-uW", "ignore", "train.py"}, 3},
      {{"python3", "-Wignore", "-X", "dev", "train.py"}, 4},
      {{"python3", "--check-hash-based-pycs", "always", "train.py"}, 3},
      {{"/v/bin/python3.11", "-I", "a/b.py"}, 2},
      {{"python3", "-m", "train"}, 0},
      {{"python3", "-um", "train"}, 0},
      {{"python3", "-c", "print(1)", "x.py"}, 0},
      {{"python3", "-"}, 0},
      {{"python3"}, 0},
      {{"python3", "-X"}, 0},
      {{"python3", "--version"}, 0},
      {{"python_train.sh", "train.py"}, 0},
      {{"sh", "train.sh"}, 0},
      {{}, 0},
  };
  for (const ScriptRow& row : rows) {
    std::string shown;
    for (const std::string& word : row.command) shown += word + " ";
    EXPECT_EQ(PythonScript(row.command), row.script) << shown;
  }
}

TEST(InterpreterOfTest, ReadsTheFirstLineAsTheKernelDoes) {
  EXPECT_EQ(Interpreter("#!/bin/sh\necho\n"), "/bin/sh");
  EXPECT_EQ(Interpreter("#! \t/usr/bin/env python3\n"), "/usr/bin/env");
  EXPECT_EQ(Interpreter("#!/usr/bin/python3\r\nprint()\r\n"), "/usr/bin/python3\r");
  EXPECT_EQ(Interpreter("#!/bin/sh"), "/bin/sh");
  EXPECT_EQ(Interpreter("#!\n"), "");
  EXPECT_EQ(Interpreter("print()\n"), "");
  EXPECT_EQ(Interpreter(""), "");
  EXPECT_EQ(Interpreter("\x7f"
                        "ELF"),
            "")
      << "a header that is cut off";
}

TEST(InterpreterHintTest, ACarriageReturnIsNamed) {
  const std::string dos = InterpreterHint("train.py", "/usr/bin/python3\r");
  EXPECT_NE(dos.find("carriage return"), std::string::npos) << dos;
  EXPECT_NE(dos.find("sed -i 's/\\r$//' train.py"), std::string::npos) << dos;
  const std::string missing = InterpreterHint("train.py", "/no/python");
  EXPECT_NE(missing.find("/no/python"), std::string::npos) << missing;
  EXPECT_EQ(missing.find("carriage return"), std::string::npos) << missing;
}

TEST(InterpreterHintTest, AProgramHasALoaderAndNoFirstLine) {
  const std::string hint = InterpreterHint("./train", "");
  EXPECT_EQ(hint.find("first line"), std::string::npos) << hint;
  EXPECT_NE(hint.find("file ./train"), std::string::npos) << hint;
}

TEST(CommandHintTest, AScriptIsToldFromAProgram) {
  EXPECT_TRUE(CommandHint("ddp.py", true).ends_with("python3 ddp.py"));
  EXPECT_TRUE(CommandHint("./ddp.py", false).ends_with("python3 ./ddp.py"));
  EXPECT_EQ(CommandHint("ddp", true), "");
  EXPECT_EQ(CommandHint("./ddp", false), "");
}

TEST(CommandHintTest, AWordOfTheShellIsNoProgramThatCouldBeInstalled) {
  for (const char* word : {"cd", "source", "export", "module"}) {
    EXPECT_NE(CommandHint(word, true).find(fmt::format("sh -c '{} ", word)), std::string::npos);
    EXPECT_EQ(CommandHint(word, false), "");
  }
}

TEST(CommandHintTest, ManySystemsLackPython) {
  EXPECT_NE(CommandHint("python", true).find("python3"), std::string::npos);
  EXPECT_EQ(CommandHint("python", false), "");
}

TEST(CommandHintTest, APathThatLeadsNowhereNeedsNoInterpreter) {
  for (const char* path : {"./ddp.py", "/bin/ddp"}) {
    const std::string hint = CommandHint(path, true);
    EXPECT_TRUE(hint.ends_with("on every host?") || hint.ends_with("--cwd sets")) << hint;
  }
}

using Words = std::vector<std::string>;

TEST(ReadPythonCallTest, SeparatesTheInterpreterFromTheProgram) {
  const std::pair<Words, PythonCall> rows[] = {
      {{"python3", "train.py", "-x"}, {{"python3"}, {"train.py", "-x"}}},
      {{"@python", "-c", "x"}, {{"@python"}, {"-c", "x"}}},
      {{"/v/bin/python3.11", "-uI", "a.py"}, {{"/v/bin/python3.11", "-u", "-I"}, {"a.py"}}},
      {{"python", "-Wignore", "-X", "dev", "-OO", "a.py", "-c"},
       {{"python", "-W", "ignore", "-X", "dev", "-O", "-O"}, {"a.py", "-c"}}},
      {{"python3", "-uW", "error", "a.py"}, {{"python3", "-u", "-W", "error"}, {"a.py"}}},
      {{"python3", "--check-hash-based-pycs", "never", "a.py"},
       {{"python3", "--check-hash-based-pycs", "never"}, {"a.py"}}},
      {{"python3", "-S", "--", "-odd.py", "--"}, {{"python3", "-S"}, {"-odd.py", "--"}}},
      {{"python3", "-m", "pack.tool", "-u"}, {{"python3"}, {"-m", "pack.tool", "-u"}}},
      {{"python3", "-Ebmpack", "1"}, {{"python3", "-E", "-b"}, {"-m", "pack", "1"}}},
      {{"python3", "-uc", "print(1)", "-m"}, {{"python3", "-u"}, {"-c", "print(1)", "-m"}}},
      {{"python3", "-cprint(1)"}, {{"python3"}, {"-c", "print(1)"}}},
      {{"python3", "-m"}, {{"python3"}, {"-m", ""}}},
  };
  for (const auto& [command, call] : rows) {
    const Result<PythonCall> read = ReadPythonCall(command);
    ASSERT_TRUE(read.ok()) << command[1] << ": " << read.status().ToString();
    EXPECT_EQ(*read, call) << command[1];
  }
}

TEST(ReadPythonCallTest, RefusesWhatRunsNoProgramOfItsOwn) {
  const std::pair<Words, std::string_view> rows[] = {
      {{}, "is not Python"},
      {{"sh", "train.sh"}, "sh is not Python"},
      {{"./train.py"}, "./train.py is not Python"},
      {{"python_train", "a.py"}, "python_train is not Python"},
      {{"python3"}, "reads its program from standard input"},
      {{"python3", "-u"}, "reads its program from standard input"},
      {{"python3", "-", "a"}, "reads its program from standard input"},
      {{"python3", "--"}, "reads its program from standard input"},
      {{"python3", ""}, "reads its program from standard input"},
      {{"python3", "-i", "a.py"}, "python3 -i runs no program"},
      {{"python3", "-uVV"}, "python3 -uVV runs no program"},
      {{"python3", "--help"}, "python3 --help runs no program"},
      {{"python3", "-x", "a.py"}, "python3 -x runs no program"},
  };
  for (const auto& [command, message] : rows) {
    const Status status = ReadPythonCall(command).status();
    EXPECT_EQ(status.code(), ErrorCode::kUsage);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace hvdray
