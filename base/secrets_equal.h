// SPDX-License-Identifier: Apache-2.0
// The one way to compare what a peer sends with a secret. Its time tells a peer nothing but whether
// the lengths differ, so a secret can't be guessed byte by byte.
#ifndef HVDRAY_BASE_SECRETS_EQUAL_H_
#define HVDRAY_BASE_SECRETS_EQUAL_H_

#include <cstddef>

#include "base/types.h"

namespace hvdray {

/// Compares a secret, or a digest made with one, with what a peer says it is, in constant time: the
/// time taken does not tell where they differ, only whether the lengths do. Call it with the whole
/// of what the peer must send, never with a part that has arrived. Pure.
inline bool SecretsEqual(ByteView ours, ByteView said) {
  if (ours.size() != said.size()) return false;
  volatile unsigned char difference = 0;  // or the loop could end early
  for (size_t i = 0; i < ours.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (ours[i] ^ said[i]));
  }
  return difference == 0;
}

}  // namespace hvdray

#endif  // HVDRAY_BASE_SECRETS_EQUAL_H_
