// SPDX-License-Identifier: Apache-2.0
#include "base/certificates.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace hvdray {
namespace {

void MakeFile(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "PEM\n";
}

TEST(CertificatesTest, EachDistributionsPlaceIsFoundWhereItExists) {
  for (const std::string place :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    const std::string root = testing::TempDir() + "/certificates_root";
    std::filesystem::remove_all(root);
    EXPECT_EQ(SystemCertificates(Environment(), root), "");
    MakeFile(root + place);
    EXPECT_EQ(SystemCertificates(Environment(), root), root + place);
    std::filesystem::remove_all(root);
  }
}

TEST(CertificatesTest, TheUsersVariablesWin) {
  const std::string root = testing::TempDir() + "/certificates_user";
  MakeFile(root + "/etc/ssl/cert.pem");
  Environment environment;
  environment.Set("SSL_CERT_DIR", "/mine");
  EXPECT_EQ(SystemCertificates(environment, root), "");
  environment.Set("SSL_CERT_FILE", "/mine.pem");
  EXPECT_EQ(SystemCertificates(environment, root), "/mine.pem");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace hvdray
