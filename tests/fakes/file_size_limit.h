// SPDX-License-Identifier: Apache-2.0
// A disk that takes no more, without one: while it lives no file of this process can grow beyond a
// size, and what would fails with EFBIG.
#ifndef HVDRAY_TESTS_FAKES_FILE_SIZE_LIMIT_H_
#define HVDRAY_TESTS_FAKES_FILE_SIZE_LIMIT_H_

#include <signal.h>
#include <sys/resource.h>

namespace hvdray {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FILE_SIZE_LIMIT_H_
