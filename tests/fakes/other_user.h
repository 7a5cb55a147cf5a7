// SPDX-License-Identifier: Apache-2.0
// Files of another local user, for tests that root runs.
#ifndef HVDRAY_TESTS_FAKES_OTHER_USER_H_
#define HVDRAY_TESTS_FAKES_OTHER_USER_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "base/status.h"

namespace hvdray {

constexpr uid_t kOtherUser = 65534;

/// Gives a file, a directory or a link itself to another user. Only root can.
inline void GiveAway(const std::string& path) {
  HVDRAY_CHECK(::lchown(path.c_str(), kOtherUser, kOtherUser) == 0);
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_OTHER_USER_H_
