// SPDX-License-Identifier: Apache-2.0
// The lines that Ray runs, run by real shells.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "cluster/ray/ray_submit.h"
#include "tests/fakes/temp_directory.h"

namespace hvdray {
namespace {

RaySpec SpecWith(std::string python, std::string working_dir = {}) {
  RaySpec ray;
  ray.python.Set(std::move(python), "test");
  ray.working_dir.Set(std::move(working_dir), "test");
  return ray;
}

/// What .hvdray/ray_driver.py prints when /bin/sh runs the line there.
std::string RunIn(const TempDirectory& directory, const std::string& line) {
  std::filesystem::create_directories(directory / ".hvdray");
  std::ofstream(directory / ".hvdray/ray_driver.py")
      << "import os, sys\nprint(os.getppid(), sys.path[0], os.environ.get('PYTHONPATH', '-'))\n";
  std::ofstream(directory / "line.sh") << line << "\n";
  const std::string command =
      "cd " + directory.path() + " && PYTHONPATH=/given sh line.sh >out 2>err";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT: this is what is tested
  const Result<std::string> out = ReadFile(directory / "out");
  return out.ok() ? *out : std::string();
}

TEST(RayEntrypointTest, APythonThatIsNamedMayHaveArguments) {
  const TempDirectory directory;
  std::ofstream(directory / "my python's") << "#!/bin/sh\necho named \"$@\"\n";
  std::filesystem::permissions(directory / "my python's", std::filesystem::perms::owner_all);
  EXPECT_EQ(RunIn(directory, RayEntrypoint(SpecWith("\"./my python's\""))),
            "named -u .hvdray/ray_driver.py\n");
  EXPECT_EQ(RunIn(directory, RayEntrypoint(SpecWith("./my\\ python\\'s run -n 'the env' python"))),
            "named run -n the env python -u .hvdray/ray_driver.py\n");
}

TEST(RayEntrypointTest, AParentThatIsNotRaysLeavesPython3) {
  const TempDirectory directory;
  const std::string out = RunIn(directory, RayEntrypoint(SpecWith("")));
  EXPECT_NE(out.find(" /given\n"), std::string::npos) << out;
}

TEST(RayEntrypointTest, ADriverBesideTheWorkingDirectoryIsFoundAmongTheModules) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory / "other");
  std::filesystem::create_directories(directory / "a module/.hvdray");
  std::ofstream(directory / "a module/.hvdray/ray_driver.py")
      << "import os, sys\nprint(sys.argv, os.environ['PYTHONPATH'])\n";
  std::ofstream(directory / "line.sh")
      << RayEntrypoint(SpecWith("", "s3://bucket/job.zip")) << "\n";
  const std::string path = directory / "other" + ":" + directory / "a module";
  const std::string command = "cd " + directory.path() + "/other && PYTHONPATH='" + path +
                              "' sh ../line.sh >../out 2>../err";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT: this is what is tested
  EXPECT_EQ(*ReadFile(directory / "out"),
            "['" + directory / "a module/.hvdray/ray_driver.py" + "'] " + path + "\n");
}

TEST(RayEntrypointTest, TheParentsOwnInterpreterAndPackagesAreTaken) {
  const TempDirectory directory;
  // A Python that has a library of Ray's name mapped, as Ray's processes have.
  std::filesystem::create_directories(directory / "site dir/ray");
  std::ofstream(directory / "site dir/ray/_raylet.so") << std::string(4096, 'x');
  std::filesystem::create_directories(directory / ".hvdray");
  std::ofstream(directory / ".hvdray/ray_driver.py")
      << "import os, sys\n"
         "print(os.environ['PYTHONPATH'], os.readlink('/proc/self/exe'), sys.argv)\n";
  std::ofstream(directory / "line.sh") << RayEntrypoint(SpecWith("")) << "\n";
  std::ofstream(directory / "parent.py")
      << "import mmap, os, subprocess\n"
         "file = open('site dir/ray/_raylet.so', 'rb')\n"
         "kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
         "out = subprocess.check_output(['/bin/sh', 'line.sh'], env={'PATH': '/nowhere',\n"
         "                              'PYTHONPATH': '/given'}, text=True)\n"
         "assert out.startswith('/given:' + os.getcwd() + '/site dir '), out\n"
         "assert os.readlink('/proc/self/exe') in out, out\n"
         "assert out.endswith(\"['.hvdray/ray_driver.py']\\n\"), out\n";
  const std::string command = "cd " + directory.path() + " && python3 parent.py";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT: this is what is tested
}

}  // namespace
}  // namespace hvdray
