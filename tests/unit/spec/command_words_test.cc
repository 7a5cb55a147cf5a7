// SPDX-License-Identifier: Apache-2.0
// What a command line tells about a program. Not here: whether the program exists.
#include "base/command_words.h"

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
    EXPECT_EQ(PythonScriptOf(row.command), row.script) << shown;
  }
}

TEST(InterpreterOfTest, ReadsTheFirstLineAsTheKernelDoes) {
  EXPECT_EQ(InterpreterOf("#!/bin/sh\necho\n"), "/bin/sh");
  EXPECT_EQ(InterpreterOf("#! \t/usr/bin/env python3\n"), "/usr/bin/env");
  EXPECT_EQ(InterpreterOf("#!/usr/bin/python3\r\nprint()\r\n"), "/usr/bin/python3\r");
  EXPECT_EQ(InterpreterOf("#!/bin/sh"), "/bin/sh");
  EXPECT_EQ(InterpreterOf("#!\n"), "");
  EXPECT_EQ(InterpreterOf("print()\n"), "");
  EXPECT_EQ(InterpreterOf(""), "");
}

TEST(InterpreterHintTest, ACarriageReturnIsNamed) {
  const std::string dos = InterpreterHint("train.py", "/usr/bin/python3\r");
  EXPECT_NE(dos.find("carriage return"), std::string::npos) << dos;
  EXPECT_NE(dos.find("sed -i 's/\\r$//' train.py"), std::string::npos) << dos;
  const std::string missing = InterpreterHint("train.py", "/no/python");
  EXPECT_NE(missing.find("/no/python"), std::string::npos) << missing;
  EXPECT_EQ(missing.find("carriage return"), std::string::npos) << missing;
}

TEST(CommandHintTest, AScriptIsToldFromAProgram) {
  EXPECT_TRUE(CommandHint("ddp.py").ends_with("python3 ddp.py"));
  EXPECT_EQ(CommandHint("ddp"), "");
}

}  // namespace
}  // namespace hvdray
