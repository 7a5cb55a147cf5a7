// The token that a Ray cluster asks for. It is shown nowhere: messages say where it came from.
#ifndef HVDRAY_CLUSTER_RAY_RAY_TOKEN_H_
#define HVDRAY_CLUSTER_RAY_RAY_TOKEN_H_

#include <string>

#include "base/environ.h"
#include "base/result.h"
#include "base/secret.h"

namespace hvdray {

struct RayToken {
  Secret text;         ///< Empty: none found.
  std::string origin;  ///< "RAY_AUTH_TOKEN", or the file's path; empty: none found.

  bool is_empty() const { return text.view().empty(); }
};

/// RAY_AUTH_TOKEN, else the file that RAY_AUTH_TOKEN_PATH names, else ~/.ray/auth_token; white
/// space around it goes. None at all is no error: not every cluster asks. Reads a file: blocks.
/// Errors: kFileUnreadable for a file that RAY_AUTH_TOKEN_PATH names or that is there but can't be
/// read, kSpecInvalid for one that holds no token (empty, of many lines, with control bytes).
Result<RayToken> FindRayToken(const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_TOKEN_H_
