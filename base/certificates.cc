// SPDX-License-Identifier: Apache-2.0
#include "base/certificates.h"

#include <unistd.h>

namespace hvdray {
namespace {

constexpr const char* kPlaces[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Alpine, Arch, Gentoo
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, Red Hat
    "/etc/pki/tls/certs/ca-bundle.crt",                   // older ones
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/ssl/cert.pem",                                  // Alpine without the package
};

}  // namespace

std::string SystemCertificates(const Environment& environment, const std::string& root) {
  std::string file = environment.GetOr("SSL_CERT_FILE", "");
  if (!file.empty() || !environment.GetOr("SSL_CERT_DIR", "").empty()) return file;
  for (const char* place : kPlaces) {
    file = root + place;
    if (::access(file.c_str(), R_OK) == 0) return file;
  }
  return {};
}

}  // namespace hvdray
