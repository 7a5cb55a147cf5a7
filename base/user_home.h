// SPDX-License-Identifier: Apache-2.0
// "~" and "~user" in paths that no shell has seen: behind a '=', in a file, from another program.
// Apart from the core, because it asks the name service, which the static agent does not have.
#ifndef HVDRAY_BASE_USER_HOME_H_
#define HVDRAY_BASE_USER_HOME_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/environ.h"

namespace hvdray {

/// The home directory of a user, and of "" that of this one; empty: unknown. May block.
using HomeOf = std::function<std::string(const std::string& user)>;

/// `path` with a home directory in place of "~" or "~user" at its beginning, as a shell has it. It
/// stays as it is if that directory is unknown, or `home_of` null.
std::string AtHome(std::string_view path, const HomeOf& home_of);

/// Of this user: HOME of `environment`, else that of the user database; of others: the latter.
HomeOf HomesHere(const Environment& environment);

/// AtHome() with the home directories of this machine. `home`: of this user; empty: see
/// HomesHere().
std::string ExpandedHome(const std::string& path, const std::string& home);
/// The same with this process's HOME.
std::string ExpandedHome(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_USER_HOME_H_
