#include "launcher/spec/command_words.h"

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

}  // namespace
}  // namespace hvdray
