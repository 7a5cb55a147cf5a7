// SPDX-License-Identifier: Apache-2.0
#include "base/http_tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "base/certificates.h"
#include "base/environ.h"
#include "base/fd.h"

namespace hvdray {
namespace {

/// OpenSSL's own texts are not for users.
std::string CertificateFault(long verify_result) {
  switch (verify_result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "its certificate is for another name";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate is not valid yet";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate has expired";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "its certificate is not signed by an authority that this host trusts";
    default:
      return fmt::format("its certificate is not valid (X.509 error {})", verify_result);
  }
}

struct SslFree {
  void operator()(::SSL* ssl) const { ::SSL_free(ssl); }
  void operator()(::SSL_CTX* context) const { ::SSL_CTX_free(context); }
};

class TlsChannel final : public HttpChannel {
 public:
  explicit TlsChannel(::SSL* ssl) : ssl_(ssl) {}

  ssize_t Handshake() override {
    return Done([this](size_t*) { return ::SSL_connect(ssl_.get()); });
  }
  Status HandshakeFault() const override {
    const long verified = ::SSL_get_verify_result(ssl_.get());
    if (verified != X509_V_OK && is_verified()) {
      return {ErrorCode::kHostKeyRejected, CertificateFault(verified)};
    }
    return {ErrorCode::kHandshakeFailed, "it does not speak TLS, or no version accepted here"};
  }
  bool is_verified() const override { return ::SSL_get_verify_mode(ssl_.get()) != SSL_VERIFY_NONE; }
  ssize_t Read(char* to, size_t size) override {
    return Done([=, this](size_t* count) { return ::SSL_read_ex(ssl_.get(), to, size, count); });
  }
  ssize_t Write(const char* from, size_t size) override {
    return Done([=, this](size_t* count) { return ::SSL_write_ex(ssl_.get(), from, size, count); });
  }

 private:
  template <typename Call>
  ssize_t Done(Call call) {
    ::ERR_clear_error();  // SSL_get_error() looks at what other calls left
    size_t count = 1;
    const int result = call(&count);
    if (result > 0) return static_cast<ssize_t>(count);
    switch (::SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return kWantsRead;
      case SSL_ERROR_WANT_WRITE:
        return kWantsWrite;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      default:  // also an end that the peer has not announced: anybody can cut a connection
        return kBroken;
    }
  }

  const std::unique_ptr<::SSL, SslFree> ssl_;
};

/// What the channels of a maker share.
class Authorities {
 public:
  explicit Authorities(HttpTrust trust) : trust_(std::move(trust)) {}

  Result<std::unique_ptr<HttpChannel>> MakeChannel(int fd, const std::string& host) {
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr) HVDRAY_RETURN_IF_ERROR(Load());
    ::SSL* ssl = ::SSL_new(context_.get());
    HVDRAY_CHECK(ssl != nullptr);  // fails only for want of memory
    auto channel = std::make_unique<TlsChannel>(ssl);
    ::SSL_set_fd(ssl, fd);
    ::X509_VERIFY_PARAM* param = ::SSL_get0_param(ssl);
    if (::X509_VERIFY_PARAM_set1_ip_asc(param, host.c_str()) != 1) {
      ::X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      ::SSL_set1_host(ssl, host.c_str());
      ::SSL_set_tlsext_host_name(ssl, host.c_str());
    }
    return channel;
  }

 private:
  Status Load() {
    std::unique_ptr<::SSL_CTX, SslFree> context(::SSL_CTX_new(::TLS_client_method()));
    HVDRAY_CHECK(context != nullptr);
    ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    ::SSL_CTX_set_mode(context.get(),
                       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (trust_.is_checked) {
      ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
      HVDRAY_RETURN_IF_ERROR(LoadCertificates(context.get()));
    }
    context_ = std::move(context);
    return {};
  }

  Status LoadCertificates(::SSL_CTX* context) const {
    if (!trust_.path.empty()) return LoadFrom(trust_.path, context);
    // Where libcrypto's own place is there, it opens only the one certificate that it needs.
    const Environment environment = Environment::FromProcess();
    const bool is_named = !environment.GetOr("SSL_CERT_FILE", "").empty();
    const bool is_at_home = ::access(::X509_get_default_cert_dir(), R_OK) == 0;
    ::SSL_CTX_set_default_verify_paths(context);
    const std::string path = is_named || !is_at_home ? SystemCertificates(environment) : "";
    if (path.empty()) {
      if (is_at_home || !environment.GetOr("SSL_CERT_DIR", "").empty()) return {};
      return {ErrorCode::kHostKeyRejected, "this host has no certificates of authorities",
              "install ca-certificates, or name a file with some by SSL_CERT_FILE"};
    }
    Status loaded = LoadFrom(path, context);
    if (loaded.ok() || !is_named) return loaded;
    // As for each program with OpenSSL, a directory of the user's is enough.
    if (!environment.GetOr("SSL_CERT_DIR", "").empty()) return {};
    return std::move(loaded)
        .WithContext("SSL_CERT_FILE")
        .WithHint(
            "SSL_CERT_FILE names a file with certificates; without it, the system's are used");
  }

  static Status LoadFrom(const std::string& path, ::SSL_CTX* context) {
    struct ::stat entry {};
    const bool is_directory = ::stat(path.c_str(), &entry) == 0 && S_ISDIR(entry.st_mode);
    const int loaded = is_directory ? ::SSL_CTX_load_verify_dir(context, path.c_str())
                                    : ::SSL_CTX_load_verify_file(context, path.c_str());
    if (loaded == 1) return {};
    if (::access(path.c_str(), R_OK) != 0)
      return FileStatus(ErrorCode::kFileUnreadable, path, errno);
    return {ErrorCode::kFileUnreadable, fmt::format("{}: no certificates in PEM form", path)};
  }

  const HttpTrust trust_;
  std::mutex mutex_;  // guards the rest
  std::unique_ptr<::SSL_CTX, SslFree> context_;
};

}  // namespace

HttpChannelMaker MakeHttpTls(HttpTrust trust) {
  // Shared by all clients that were given a copy of the function.
  return [authorities = std::make_shared<Authorities>(std::move(trust))](
             int fd, const std::string& host) { return authorities->MakeChannel(fd, host); };
}

}  // namespace hvdray
