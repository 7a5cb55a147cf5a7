// SPDX-License-Identifier: Apache-2.0
// A directory of its own for one test; gone with it.
#ifndef HVDRAY_TESTS_FAKES_TEMP_DIRECTORY_H_
#define HVDRAY_TESTS_FAKES_TEMP_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/status.h"

namespace hvdray {

class TempDirectory {
 public:
  TempDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "hvdray-test-XXXXXX";
    HVDRAY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_TEMP_DIRECTORY_H_
