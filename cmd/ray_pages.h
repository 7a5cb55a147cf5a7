// What people read about `hvdray follow`, `status`, `slots` and `rendezvous`, made of their
// declarations. Pure.
#ifndef HVDRAY_CMD_RAY_PAGES_H_
#define HVDRAY_CMD_RAY_PAGES_H_

#include <string>
#include <vector>

namespace hvdray {

struct ManPage {
  std::string name;  ///< "hvdray-follow.1"
  std::string text;  ///< In man(7) macros.
};

/// The part of docs/cli.md about them.
std::string RayCommandsMarkdown();
std::vector<ManPage> RayManPages();

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_PAGES_H_
