// SPDX-License-Identifier: Apache-2.0
// Where a machine keeps the certificates of the authorities that it trusts. A libcrypto that comes
// with us knows only the place of the system that it was built for.
#ifndef HVDRAY_BASE_CERTIFICATES_H_
#define HVDRAY_BASE_CERTIFICATES_H_

#include <string>

#include "base/environ.h"

namespace hvdray {

/// A file in PEM form: that of SSL_CERT_FILE, else the first that exists of the distributions'
/// places. Empty: there is none, or SSL_CERT_DIR names a directory. `root`: before each place.
std::string SystemCertificates(const Environment& environment, const std::string& root = "");

}  // namespace hvdray

#endif  // HVDRAY_BASE_CERTIFICATES_H_
