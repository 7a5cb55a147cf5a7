// SPDX-License-Identifier: Apache-2.0
#include "base/curl_client.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

// The header's macros would hide the functions, which are called through pointers here.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#include <algorithm>
#include <mutex>
#include <string_view>

#include "base/local_peer.h"
#include "base/text.h"

namespace hvdray {
namespace {

/// The functions of libcurl in use. Their types are those of its header.
struct Curl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version_info) version_info = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  std::string fault;  ///< Why libcurl can't be used; empty: it can.

  template <typename Function>
  void Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr && fault.empty()) fault = fmt::format("libcurl has no {}", name);
  }

  void Load() {
    // Never unloaded: libcurl's threads for name lookups may outlast a request.
    void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      fault = fmt::format("load libcurl: {}", ::dlerror());
      return;
    }
    Find(library, "curl_global_init", global_init);
    Find(library, "curl_version_info", version_info);
    Find(library, "curl_easy_init", easy_init);
    Find(library, "curl_easy_setopt", easy_setopt);
    Find(library, "curl_easy_getinfo", easy_getinfo);
    Find(library, "curl_easy_cleanup", easy_cleanup);
    Find(library, "curl_easy_strerror", easy_strerror);
    Find(library, "curl_slist_append", slist_append);
    Find(library, "curl_slist_free_all", slist_free_all);
    Find(library, "curl_multi_init", multi_init);
    Find(library, "curl_multi_cleanup", multi_cleanup);
    Find(library, "curl_multi_add_handle", multi_add_handle);
    Find(library, "curl_multi_remove_handle", multi_remove_handle);
    Find(library, "curl_multi_perform", multi_perform);
    Find(library, "curl_multi_poll", multi_poll);
    Find(library, "curl_multi_wakeup", multi_wakeup);
    Find(library, "curl_multi_info_read", multi_info_read);
    if (!fault.empty()) return;
    constexpr unsigned kFirstSigningEveryHeader = 0x075600;  // 7.86.0
    const curl_version_info_data* version = version_info(CURLVERSION_NOW);
    if (version->version_num < kFirstSigningEveryHeader) {
      fault = fmt::format("libcurl {} is too old: 7.86 or later is needed", version->version);
    } else if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      fault = "libcurl can't be initialized";
    }
  }
};

/// Loaded once, by the first caller.
const Curl& TheCurl() {
  static const Curl the_curl = [] {
    Curl curl;
    curl.Load();
    return curl;
  }();
  return the_curl;
}

struct EasyCleanup {
  void operator()(CURL* easy) const { TheCurl().easy_cleanup(easy); }
};
struct MultiCleanup {
  void operator()(CURLM* multi) const { TheCurl().multi_cleanup(multi); }
};
using Easy = std::unique_ptr<CURL, EasyCleanup>;
using Multi = std::unique_ptr<CURLM, MultiCleanup>;

std::optional<TcpAddress> AddressOf(const char* ip, int port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  if (::inet_pton(AF_INET, ip, &v4.sin_addr) == 1) {
    return TcpAddress::FromIpv4(v4.sin_addr.s_addr, static_cast<uint16_t>(port));
  }
  TcpAddress v6{{}, static_cast<uint16_t>(port)};
  if (::inet_pton(AF_INET6, ip, v6.ip.data()) != 1) return std::nullopt;
  return v6;
}

/// On a connection in clear text, before anything is sent: whether nobody but us and root can have
/// it. `refused`: a bool.
int CheckPeer(void* refused, char* remote_ip, char* local_ip, int remote_port, int local_port) {
  const std::optional<TcpAddress> local = AddressOf(local_ip, local_port);
  const std::optional<TcpAddress> remote = AddressOf(remote_ip, remote_port);
  const LocalPeer peer = local && remote ? FindLocalPeer(*local, *remote) : LocalPeer();
  const bool may_know =
      peer.kind == LocalPeer::Kind::kElsewhere || peer.kind == LocalPeer::Kind::kTrusted;
  *static_cast<bool*>(refused) = !may_know;
  return may_know ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/// Header lines as libcurl takes them.
class HeaderLines {
 public:
  HeaderLines() = default;
  HeaderLines(const HeaderLines&) = delete;
  HeaderLines& operator=(const HeaderLines&) = delete;
  ~HeaderLines() { TheCurl().slist_free_all(lines_); }
  void Add(std::string_view name, std::string_view value) {
    lines_ = TheCurl().slist_append(lines_, fmt::format("{}: {}", name, value).c_str());
  }
  curl_slist* get() const { return lines_; }

 private:
  curl_slist* lines_ = nullptr;
};

/// Where an answer's body goes.
struct Sink {
  std::string body;
  size_t limit = 0;
  bool is_too_large = false;
};

size_t OnBody(char* data, size_t size, size_t count, void* state) {
  auto* sink = static_cast<Sink*>(state);
  const size_t bytes = size * count;
  sink->is_too_large = bytes > sink->limit - sink->body.size();
  if (sink->is_too_large) return 0;
  sink->body.append(data, bytes);
  return bytes;
}

bool HasControlByte(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

long CurlMilliseconds(Duration duration) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

/// "https://ec2.us-west-2.amazonaws.com/x" -> "ec2.us-west-2.amazonaws.com".
std::string_view AuthorityOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  return url.substr(0, url.find_first_of("/?#"));
}

Status FailureOf(CURLcode code, long os_error, const char* detail, const CurlRequest& request,
                 const Sink& sink, bool has_connected) {
  const std::string_view place = AuthorityOf(request.url);
  const std::string words = detail[0] != '\0' ? detail : TheCurl().easy_strerror(code);
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
      if (has_connected) return {ErrorCode::kProtocolError, fmt::format("{}: not HTTP", place)};
      [[fallthrough]];
    case CURLE_URL_MALFORMAT:
      return {ErrorCode::kUsage, fmt::format("{}: not a valid URL", request.url)};
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {ErrorCode::kUnknownHost, "no address for the proxy's name",
              "check HTTPS_PROXY and NO_PROXY"};
    case CURLE_COULDNT_RESOLVE_HOST:
      return {ErrorCode::kUnknownHost, fmt::format("no address for the name {}", place)};
    case CURLE_COULDNT_CONNECT:
      return os_error == 0
                 ? Status(ErrorCode::kHostUnreachable, fmt::format("{}: {}", place, words))
                 : Status(ErrorCode::kHostUnreachable,
                          ErrnoStatus("connect " + std::string(place), static_cast<int>(os_error))
                              .message());
    case CURLE_OPERATION_TIMEDOUT:
      return has_connected ? Status(ErrorCode::kDeadlineExceeded,
                                    fmt::format("{}: no complete answer within {}", place,
                                                SecondsText(request.timeout)))
                           : Status(ErrorCode::kConnectTimeout,
                                    fmt::format("{}: no connection within {}", place,
                                                SecondsText(request.connect_timeout)));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {ErrorCode::kHostKeyRejected, fmt::format("{}: {}", place, words)};
    case CURLE_SSL_CONNECT_ERROR:
      return {ErrorCode::kHandshakeFailed, fmt::format("{}: {}", place, words)};
    case CURLE_WRITE_ERROR:
      if (sink.is_too_large) {
        return {ErrorCode::kProtocolError,
                fmt::format("{}: answer larger than {} bytes", place, sink.limit)};
      }
      [[fallthrough]];
    default:
      return {ErrorCode::kProtocolError, fmt::format("{}: {}", place, words)};
  }
}

}  // namespace

struct CurlClient::Impl {
  std::mutex mutex;  // guards the rest
  bool is_cancelled = false;
  std::vector<Multi> idle;  // each keeps its connections
  std::vector<CURLM*> busy;

  /// A handle that Cancel() can wake; nullptr: cancelled.
  Multi Take() {
    const std::lock_guard lock(mutex);
    if (is_cancelled) return nullptr;
    Multi multi;
    if (idle.empty()) {
      multi.reset(TheCurl().multi_init());
      HVDRAY_CHECK(multi != nullptr);  // fails only for want of memory
    } else {
      multi = std::move(idle.back());
      idle.pop_back();
    }
    busy.push_back(multi.get());
    return multi;
  }

  void GiveBack(Multi multi) {
    const std::lock_guard lock(mutex);
    std::erase(busy, multi.get());
    idle.push_back(std::move(multi));
  }

  bool IsCancelled() {
    const std::lock_guard lock(mutex);
    return is_cancelled;
  }

  /// Runs `easy` to its end; nullopt: cancelled.
  std::optional<CURLcode> Perform(CURLM* multi, CURL* easy) {
    const Curl& curl = TheCurl();
    HVDRAY_CHECK(curl.multi_add_handle(multi, easy) == CURLM_OK);
    std::optional<CURLcode> result;
    int running = 1;
    while (!IsCancelled()) {
      if (curl.multi_perform(multi, &running) != CURLM_OK) result = CURLE_FAILED_INIT;
      int left = 0;
      while (const CURLMsg* message = curl.multi_info_read(multi, &left)) {
        if (message->msg == CURLMSG_DONE) result = message->data.result;
      }
      if (result || running == 0) break;
      constexpr int kAtMostMs = 1000;  // its own timers wake it before
      curl.multi_poll(multi, nullptr, 0, kAtMostMs, nullptr);
    }
    curl.multi_remove_handle(multi, easy);
    return result;
  }
};

CurlClient::CurlClient() : impl_(std::make_unique<Impl>()) {}
CurlClient::~CurlClient() = default;

Result<CurlReply> CurlClient::Send(const CurlRequest& request) {
  const Curl& curl = TheCurl();
  if (!curl.fault.empty()) {
    return Status(ErrorCode::kNotSupported, curl.fault, "install Debian's package libcurl4");
  }
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || HasControlByte(name) || HasControlByte(value)) {
      return Status(ErrorCode::kUsage, "a header contains bytes that can't be sent");
    }
  }
  Multi multi = impl_->Take();
  if (multi == nullptr) return Status(ErrorCode::kCancelled, "cancelled");

  const Easy easy(curl.easy_init());
  HVDRAY_CHECK(easy != nullptr);
  const auto set = [&](CURLoption option, auto value) {
    curl.easy_setopt(easy.get(), option, value);
  };
  Sink sink{.limit = request.max_body_bytes};
  char detail[CURL_ERROR_SIZE] = "";
  std::string signer_words;
  HeaderLines lines;
  for (const auto& [name, value] : request.headers) lines.Add(name, value);
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, &detail[0]);
  set(CURLOPT_USERAGENT, "hvdray");
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_WRITEDATA, &sink);
  set(CURLOPT_CONNECTTIMEOUT_MS, CurlMilliseconds(request.connect_timeout));
  set(CURLOPT_TIMEOUT_MS, CurlMilliseconds(request.timeout));
  if (!request.may_use_proxy) set(CURLOPT_PROXY, "");
  if (request.method != "GET") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.c_str());
    if (request.method != "POST") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (request.signer) {
    const AwsSigner& signer = *request.signer;
    signer_words = fmt::format("aws:amz:{}:{}", signer.region, signer.service);
    set(CURLOPT_AWS_SIGV4, signer_words.c_str());
    set(CURLOPT_USERNAME, signer.access_key_id.c_str());
    set(CURLOPT_PASSWORD, signer.secret_access_key.c_str());
    if (!signer.session_token.view().empty()) {
      lines.Add("X-Amz-Security-Token", signer.session_token.view());
    }
  }
  set(CURLOPT_HTTPHEADER, lines.get());
  bool is_refused = false;
  if (request.url.starts_with("http://")) {
    set(CURLOPT_PREREQFUNCTION, &CheckPeer);
    set(CURLOPT_PREREQDATA, &is_refused);
  }

  const std::optional<CURLcode> code = impl_->Perform(multi.get(), easy.get());
  impl_->GiveBack(std::move(multi));
  if (!code) return Status(ErrorCode::kCancelled, "cancelled");
  if (is_refused) {
    return Status(ErrorCode::kHostRefused,
                  "the server on this machine is a process of another user: it gets no secret");
  }
  if (*code != CURLE_OK) {
    long os_error = 0;
    double connected_s = 0;
    curl.easy_getinfo(easy.get(), CURLINFO_OS_ERRNO, &os_error);
    curl.easy_getinfo(easy.get(), CURLINFO_PRETRANSFER_TIME, &connected_s);
    return FailureOf(*code, os_error, detail, request, sink, connected_s > 0);
  }
  long status = 0;
  curl.easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  return CurlReply{.status = static_cast<int>(status), .body = std::move(sink.body)};
}

void CurlClient::Cancel() {
  const std::lock_guard lock(impl_->mutex);
  impl_->is_cancelled = true;
  for (CURLM* multi : impl_->busy) TheCurl().multi_wakeup(multi);
}

}  // namespace hvdray
