// SPDX-License-Identifier: Apache-2.0
// The access token of a Ray cluster. Never shown: messages only name its origin.
#ifndef HVDRAY_CLUSTER_RAY_RAY_TOKEN_H_
#define HVDRAY_CLUSTER_RAY_RAY_TOKEN_H_

#include <string>

#include "base/environ.h"
#include "base/result.h"
#include "base/secret.h"

namespace hvdray {

/// A token and where it was found. Move-only, wiped on destruction.
struct RayToken {
  Secret text;         ///< Empty: none found.
  std::string origin;  ///< "RAY_AUTH_TOKEN", or the file's path; empty: none found.

  bool is_empty() const { return text.view().empty(); }
};

/// Takes RAY_AUTH_TOKEN, else the file of RAY_AUTH_TOKEN_PATH, else ~/.ray/auth_token, and trims
/// white space. Empty when none exists: not every cluster wants a token. Blocks to read a file.
/// Errors: kFileUnreadable for an unreadable file (for RAY_AUTH_TOKEN_PATH also a missing one),
/// kSpecInvalid for contents that are no token (empty, several words, control bytes).
Result<RayToken> FindRayToken(const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_TOKEN_H_
