// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/ray_runtime_env.h"

#include <gtest/gtest.h>

#include "tests/unit/spec/spec_test_support.h"

namespace hvdray {
namespace {

using Files = std::map<std::string, std::string>;

Result<RayRuntimeEnv> Read(const std::string& text, const Files& files = {}) {
  return ReadRuntimeEnv(text, [&files](const std::string& path) {
    const auto found = files.find(path);
    return Result<std::optional<std::string>>(found == files.end() ? std::nullopt
                                                                   : std::optional(found->second));
  });
}

std::string ErrorOf(const std::string& text, const Files& files = {}) {
  const Result<RayRuntimeEnv> env = Read(text, files);
  return env.ok() ? "" : env.status().message();
}

TEST(RayRuntimeEnvTest, JsonGoesToRayAsItIs) {
  const auto env = Read(R"({"pip": ["a==1", "b"], "env_vars": {"X": "1"},
                            "config": {"setup_timeout_seconds": 30}})");
  ASSERT_TRUE(env.ok()) << env.status().ToString();
  EXPECT_EQ(DumpJson(env->actors), R"({"pip":["a==1","b"],"env_vars":{"X":"1"},)"
                                   R"("config":{"setup_timeout_seconds":30}})");
}

TEST(RayRuntimeEnvTest, FilesOfThisMachineAreReadIn) {
  const Files files = {{"req.txt", "a==1\r\n\n# why\nb\n"},
                       {"conda.yml", "dependencies:\n- python=3.11\n- pip: [x]\n"},
                       {"env.yaml",
                        "pip: {packages: req.txt, pip_check: false}\n"
                        "env_vars: {N: 010, Y: yes}\npy_modules: [lib]\n"
                        "working_dir: .\nexcludes: ['*.bin']\n"}};
  EXPECT_EQ(DumpJson(Read(R"({"uv": "req.txt"})", files)->actors),
            R"({"uv":["a==1","# why","b"]})");
  EXPECT_EQ(DumpJson(Read(R"({"conda": "conda.yml"})", files)->actors),
            R"({"conda":{"dependencies":["python=3.11",{"pip":["x"]}]}})");
  EXPECT_EQ(DumpJson(Read(R"({"conda": "named"})", files)->actors), R"({"conda":"named"})");
  const auto env = Read("env.yaml", files);
  ASSERT_TRUE(env.ok()) << env.status().ToString();
  EXPECT_EQ(DumpJson(env->actors), R"({"pip":{"packages":["a==1","# why","b"],"pip_check":false},)"
                                   R"("env_vars":{"N":"010","Y":"yes"}})");
  EXPECT_EQ(env->py_modules, std::vector<std::string>{"lib"});
  EXPECT_EQ(env->working_dir, ".");
  EXPECT_EQ(env->excludes, std::vector<std::string>{"*.bin"});
}

TEST(RayRuntimeEnvTest, WhatIsWrongIsSaidWithoutValuesOfVariables) {
  EXPECT_EQ(ErrorOf(R"({"pips": []})"), "unknown key 'pips'");
  EXPECT_EQ(Read(R"({"pips": []})").status().hint(), "did you mean pip?");
  EXPECT_EQ(ErrorOf(R"({"pip": [], "conda": "x"})"), "only one of pip, uv and conda");
  EXPECT_EQ(ErrorOf(R"({"pip": "none.txt"})"), "pip: there is no file none.txt");
  EXPECT_EQ(ErrorOf(R"({"pip": {}})"), "pip has no packages");
  EXPECT_EQ(ErrorOf(R"({"env_vars": {"A": 1}})"), "env_vars: the value of 'A' must be a text");
  EXPECT_EQ(ErrorOf(R"({"py_modules": "x"})"), "py_modules must be a list of texts");
  EXPECT_EQ(ErrorOf(R"({"image_uri": "x", "pip": ["y"]})"), "Ray takes no pip beside image_uri");
  EXPECT_EQ(ErrorOf("none.yaml"), "there is no file 'none.yaml'");
  EXPECT_EQ(ErrorOf("a.yaml", {{"a.yaml", "- x\n"}}), "a.yaml: it must be an object");
  EXPECT_EQ(ErrorOf("{").find("it is no JSON: "), 0u);
}

TEST(RayRuntimeEnvTest, TheTextOfASpecHasItAllAndShowsNoPasswords) {
  auto env = Read(R"({"uv": ["a"], "env_vars": {"KEY": "secret"}, "py_modules": ["lib"]})");
  ASSERT_TRUE(env.ok());
  const std::string text = RuntimeEnvText(*env);
  const auto back = ParseRuntimeEnvText(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->actors, env->actors);
  EXPECT_EQ(back->py_modules, env->py_modules);
  EXPECT_EQ(ShownRuntimeEnv(text).get<std::string>().find("secret"), std::string::npos);
  EXPECT_EQ(RuntimeEnvText({}), "");
  EXPECT_TRUE(ParseRuntimeEnvText("")->actors.empty());
}

TEST(RayRuntimeEnvTest, ASpecTakesTheWorkingDirectoryFromIt) {
  SpecWorld world;
  const auto spec = [&world](const std::string& line) {
    const Result<RunRequest> request = world.Resolve("-np 1 --ray " + line + " ./t");
    EXPECT_TRUE(request.ok()) << request.status().ToString();
    return request.ok() ? request->spec.ray : RaySpec();
  };
  const RaySpec ray = spec(R"(--runtime-env {"working_dir":"src","excludes":["x"],"uv":["a"]})");
  EXPECT_EQ(*ray.working_dir, "src");
  EXPECT_EQ(*ray.excludes, std::vector<std::string>{"x"});
  EXPECT_EQ(*ray.runtime_env, R"({"uv":["a"]})");
  EXPECT_EQ(*spec(R"(--runtime-env-json {"uv":["a"]})").runtime_env, R"({"uv":["a"]})");
  EXPECT_EQ(*spec("--working-dir s3://b/x.zip").working_dir, "s3://b/x.zip");
  EXPECT_EQ(world.StatusOf("-np 1 --ray --working-dir a --runtime-env {\"working_dir\":\"b\"} ./t")
                .message(),
            "flag --runtime-env and flag --working-dir both name a working directory");
  EXPECT_EQ(world.StatusOf("-np 1 --ray --working-dir s3://b/x ./t").message(),
            "flag --working-dir: 's3://b/x' is not the name of an archive");
  EXPECT_EQ(world.StatusOf("-np 1 --ray --working-dir ftp://b/x.zip ./t").message(),
            "flag --working-dir: Ray fetches nothing from 'ftp://b/x.zip'");
  EXPECT_EQ(world.StatusOf("-np 1 --ray --detach --stop-with-client ./t").message(),
            "flag --stop-with-client is not allowed with flag --detach");
}

}  // namespace
}  // namespace hvdray
