// SPDX-License-Identifier: Apache-2.0
// Loads a rendezvous server as Horovod's C++ client does: one connection per request (connect,
// send, read, close), several threads. Or holds thousands of GETs until PUTs release them. Prints
// JSON.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string mode;
  uint16_t port = 0;
  int threads = 4;
  double seconds = 3;
  int value_bytes = 952;  // 136 per peer, of 7 peers
  int gets_per_put = 4;
  int count = 10'000;
  int keys = 100;
  int pid = 0;
};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// client: selects a source address in 127.0.0.0/8. The kernel reuses a port towards the same
/// server only after one to two seconds (tcp_tw_reuse), so a single address can't open more than
/// 28,000 connections in two seconds. Returns a descriptor; -1: failed.
int Connect(uint16_t port, int client) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<uint32_t>(client));
  const int late = 1;  // lets connect() choose the port, because it knows the peer
  if (fd >= 0 && (::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof late) != 0 ||
                  ::bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0)) {
    ::close(fd);
    return -1;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

/// Reads one answer by its Content-Length, in Horovod's spelling. Returns its status; 0: no answer.
int ReadAnswer(int fd, size_t* body_bytes) {
  std::string answer;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return 0;
    answer.append(buffer, static_cast<size_t>(n));
    const size_t end = answer.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    const size_t field = answer.find("Content-Length: ");
    if (field == std::string::npos || field > end || answer.size() < 12) return 0;
    const size_t length = std::strtoull(answer.c_str() + field + 16, nullptr, 10);
    if (answer.size() < end + 4 + length) continue;
    *body_bytes = length;
    return std::atoi(answer.c_str() + 9);
  }
}

std::string RequestOf(const char* method, const std::string& path, const std::string& body) {
  return std::string(method) + " " + path +
         " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

/// Sends one request over a new connection. Returns the status; 0: no answer.
int Request(uint16_t port, int client, std::string_view bytes, size_t* body_bytes) {
  const int fd = Connect(port, client);
  if (fd < 0) return 0;
  const int status = SendAll(fd, bytes) ? ReadAnswer(fd, body_bytes) : 0;
  ::close(fd);
  return status;
}

struct Tally {
  uint64_t requests = 0;
  uint64_t errors = 0;
  std::vector<float> latencies_us;
};

/// One client: repeatedly PUTs its own key, GETs it a few times, and checks the answers.
Tally RunClient(const Options& options, int index, const std::atomic<bool>& is_over) {
  Tally tally;
  tally.latencies_us.reserve(1 << 18);
  const std::string path = "/global/" + std::to_string(index);
  const std::string value(static_cast<size_t>(options.value_bytes), 'v');
  const std::string put = RequestOf("PUT", path, value);
  const std::string get = RequestOf("GET", path, "");
  for (int step = 0; !is_over.load(std::memory_order_relaxed); ++step) {
    const bool is_put = step % (options.gets_per_put + 1) == 0;
    size_t body_bytes = 0;
    const auto start = Clock::now();
    const int status = Request(options.port, index, is_put ? put : get, &body_bytes);
    tally.latencies_us.push_back(static_cast<float>(SecondsSince(start) * 1e6));
    ++tally.requests;
    if (status != 200 || body_bytes != (is_put ? 0 : value.size())) ++tally.errors;
  }
  return tally;
}

int Load(const Options& options) {
  std::atomic<bool> is_over{false};
  std::vector<Tally> tallies(static_cast<size_t>(options.threads));
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back(
        [&, i] { tallies[static_cast<size_t>(i)] = RunClient(options, i, is_over); });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  is_over.store(true);
  for (std::thread& thread : threads) thread.join();
  const double seconds = SecondsSince(start);
  Tally all;
  for (Tally& tally : tallies) {
    all.requests += tally.requests;
    all.errors += tally.errors;
    all.latencies_us.insert(all.latencies_us.end(), tally.latencies_us.begin(),
                            tally.latencies_us.end());
  }
  std::sort(all.latencies_us.begin(), all.latencies_us.end());
  const auto at = [&](double share) {
    if (all.latencies_us.empty()) return 0.0F;
    return all.latencies_us[static_cast<size_t>(share * double(all.latencies_us.size() - 1))];
  };
  std::printf(
      "{\"requests\": %llu, \"errors\": %llu, \"seconds\": %.4f, \"requests_per_s\": %.1f, "
      "\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
      static_cast<unsigned long long>(all.requests), static_cast<unsigned long long>(all.errors),
      seconds, double(all.requests) / seconds, at(0.5), at(0.99), at(1));
  return all.errors == 0 ? 0 : 1;
}

/// VmRSS of the server in KiB; 0 if it can't be read.
long RssKib(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
  }
  return 0;
}

/// VmRSS in KiB once the server has processed everything: unchanged for 300 ms, or after 10 s.
long SettledRssKib(int pid) {
  long last = RssKib(pid);
  for (int equal = 0, round = 0; equal < 3 && round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const long now = RssKib(pid);
    equal = now == last ? equal + 1 : 0;
    last = now;
  }
  return last;
}

int Hold(const Options& options) {
  const auto files = static_cast<rlim_t>(options.count) + 64;
  const rlimit limit{files, files};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::perror("kv_load: setrlimit");
  const long before = RssKib(options.pid);
  const auto path_of = [&](int key) { return "/global/" + std::to_string(1000 + key); };
  std::vector<int> held;
  const auto start = Clock::now();
  for (int i = 0; i < options.count; ++i) {
    const int fd = Connect(options.port, 0);
    if (fd < 0 || !SendAll(fd, RequestOf("GET", path_of(i % options.keys), ""))) {
      std::fprintf(stderr, "kv_load: connection %d: %s\n", i, std::strerror(errno));
      return 1;
    }
    held.push_back(fd);
  }
  const double opened_s = SecondsSince(start);
  const long during = SettledRssKib(options.pid);
  size_t early = 0;
  for (const int fd : held) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 0) != 0) ++early;
  }
  const auto released = Clock::now();
  const std::string value(static_cast<size_t>(options.value_bytes), 'v');
  size_t answered = 0;
  size_t body_bytes = 0;
  for (int key = 0; key < options.keys; ++key) {
    Request(options.port, 0, RequestOf("PUT", path_of(key), value), &body_bytes);
  }
  for (const int fd : held) {
    if (ReadAnswer(fd, &body_bytes) == 200 && body_bytes == value.size()) ++answered;
  }
  const double released_s = SecondsSince(released);
  for (const int fd : held) ::close(fd);
  std::printf(
      "{\"held\": %zu, \"answered_early\": %zu, \"answered_on_put\": %zu, \"open_s\": %.3f, "
      "\"release_s\": %.3f, \"rss_before_kib\": %ld, \"rss_held_kib\": %ld}\n",
      held.size(), early, answered, opened_s, released_s, before, during);
  return answered == held.size() && early == 0 ? 0 : 1;
}

bool Parse(int argc, char** argv, Options* options) {
  if (argc < 2) return false;
  options->mode = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port") {
      options->port = static_cast<uint16_t>(std::atoi(value));
    } else if (name == "--threads") {
      options->threads = std::atoi(value);
    } else if (name == "--seconds") {
      options->seconds = std::atof(value);
    } else if (name == "--value-bytes") {
      options->value_bytes = std::atoi(value);
    } else if (name == "--gets-per-put") {
      options->gets_per_put = std::atoi(value);
    } else if (name == "--count") {
      options->count = std::atoi(value);
    } else if (name == "--pid") {
      options->pid = std::atoi(value);
    } else {
      return false;
    }
  }
  return options->port != 0 && (options->mode == "load" || options->mode == "hold");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fputs(
        "usage: kv_load load --port N [--threads N] [--seconds S] [--value-bytes N] "
        "[--gets-per-put N]\n       kv_load hold --port N --pid SERVER [--count N]\n",
        stderr);
    return 2;
  }
  return options.mode == "load" ? Load(options) : Hold(options);
}
