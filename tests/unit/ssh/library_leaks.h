// SPDX-License-Identifier: Apache-2.0
// What libssh2 1.10 itself never frees; everything else is for the leak checker to find.
#ifndef HVDRAY_TESTS_UNIT_SSH_LIBRARY_LEAKS_H_
#define HVDRAY_TESTS_UNIT_SSH_LIBRARY_LEAKS_H_

#if defined(__SANITIZE_ADDRESS__)

#include <sanitizer/lsan_interface.h>

/// The number that an ECDSA key file is read through, 56 bytes a key. Sessions and channels are not
/// made by this function of libcrypto.
extern "C" inline __attribute__((used, visibility("default"))) const char*
__lsan_default_suppressions() {
  return "leak:CRYPTO_zalloc\n";
}

namespace hvdray {
/// The host's key at each change of keys, 51 bytes. For what this thread allocates from now on.
inline void AllowRekeyLeaks() { __lsan_disable(); }
inline void EndRekeyLeaks() { __lsan_enable(); }
}  // namespace hvdray

#else

namespace hvdray {
inline void AllowRekeyLeaks() {}
inline void EndRekeyLeaks() {}
}  // namespace hvdray

#endif

#endif  // HVDRAY_TESTS_UNIT_SSH_LIBRARY_LEAKS_H_
