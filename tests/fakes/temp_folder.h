// A folder of its own for one test; gone with it.
#ifndef HVDRAY_TESTS_FAKES_TEMP_FOLDER_H_
#define HVDRAY_TESTS_FAKES_TEMP_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/status.h"

namespace hvdray {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "hvdray-test-XXXXXX";
    HVDRAY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_TEMP_FOLDER_H_
