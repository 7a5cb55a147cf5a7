// Where a worker may write what ended it: TORCHELASTIC_ERROR_FILE, as torchrun has it. The file
// lives in memory under a descriptor of the agent, so that nothing is left behind whoever is
// killed.
#ifndef HVDRAY_AGENT_ERROR_FILE_H_
#define HVDRAY_AGENT_ERROR_FILE_H_

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/types.h"

namespace hvdray {

class ErrorFile {
 public:
  struct Record {
    std::string message;  ///< UTF-8, at most wire::kMaxRecordedError bytes.
    Duration age;         ///< Since it was written.
  };

  /// Errors: as ErrnoStatus.
  static Result<ErrorFile> Make();

  /// For the worker, which must be of the same user as this process.
  std::string path() const;
  /// What torch's `record` wrote there, or whatever text it is; nullopt: nothing. Does not block.
  std::optional<Record> Read() const;

 private:
  explicit ErrorFile(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_ERROR_FILE_H_
