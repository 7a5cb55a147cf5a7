// SPDX-License-Identifier: Apache-2.0
#include "base/user_home.h"

#include <unistd.h>

#include <algorithm>

#include "base/name_service.h"

namespace hvdray {
namespace {

std::string HomeInDatabase(const std::string& user) {
  const std::optional<UserEntry> entry = user.empty() ? FindUser(::geteuid()) : FindUser(user);
  return entry ? entry->home : "";
}

}  // namespace

std::string AtHome(std::string_view path, const HomeOf& home_of) {
  if (!home_of || !path.starts_with('~')) return std::string(path);
  // No user has a colon in his name: "~:TARGET" of --sync.
  const size_t end = std::min(path.find_first_of("/:"), path.size());
  const std::string home = home_of(std::string(path.substr(1, end - 1)));
  return home.empty() ? std::string(path) : home + std::string(path.substr(end));
}

HomeOf HomesHere(const Environment& environment) {
  return [home = environment.GetOr("HOME", "")](const std::string& user) {
    return user.empty() && !home.empty() ? home : HomeInDatabase(user);
  };
}

std::string ExpandedHome(const std::string& path, const std::string& home) {
  return AtHome(path, HomesHere(Environment({{"HOME", home}})));
}

std::string ExpandedHome(const std::string& path) {
  return AtHome(path, HomesHere(Environment::FromProcess()));
}

}  // namespace hvdray
