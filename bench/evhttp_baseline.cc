// SPDX-License-Identifier: Apache-2.0
// Baselines for the rendezvous server: libevent's evhttp unmodified, and a bare epoll loop that
// parses almost nothing, as the ceiling. Neither checks peers, routes or holds requests. For
// benchmarks only.
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

namespace {

using Store = std::unordered_map<std::string, std::string>;

int Listen(uint16_t* port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 4096) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("evhttp_baseline");
    std::exit(125);
  }
  *port = ntohs(address.sin_port);
  return fd;
}

void OnRequest(evhttp_request* request, void* store_pointer) {
  Store& store = *static_cast<Store*>(store_pointer);
  const char* path = evhttp_request_get_uri(request);
  evbuffer* reply = evbuffer_new();
  int status = 200;
  if (evhttp_request_get_command(request) == EVHTTP_REQ_PUT) {
    evbuffer* body = evhttp_request_get_input_buffer(request);
    std::string value(evbuffer_get_length(body), '\0');
    evbuffer_remove(body, value.data(), value.size());
    store[path] = std::move(value);
  } else {
    const auto found = store.find(path);
    if (found == store.end()) {
      status = 404;
    } else {
      evbuffer_add(reply, found->second.data(), found->second.size());
    }
  }
  evhttp_send_reply(request, status, status == 200 ? "OK" : "Not Found", reply);
  evbuffer_free(reply);
}

int ServeEvhttp(int listener) {
  Store store;
  event_base* base = event_base_new();
  evhttp* http = evhttp_new(base);
  evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE);
  evhttp_set_gencb(http, &OnRequest, &store);
  if (evhttp_accept_socket(http, listener) != 0) return 125;
  return event_base_dispatch(base);
}

/// Answers a request that arrived in one piece. False: the caller must close the connection.
bool AnswerBare(int fd, Store& store) {
  char buffer[16384];
  const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
  if (n < 0) return errno == EAGAIN;
  if (n == 0) return false;
  const std::string_view in(buffer, static_cast<size_t>(n));
  const size_t path_start = in.find(' ') + 1;
  const std::string path(in.substr(path_start, in.find(' ', path_start) - path_start));
  std::string body;
  if (in[0] == 'P') {
    store[path] = std::string(in.substr(in.find("\r\n\r\n") + 4));
  } else {
    body = store[path];
  }
  const std::string answer =
      "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  return ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(answer.size());
}

[[noreturn]] void ServeBare(int listener) {
  Store store;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      int fd = events[i].data.fd;
      if (fd != listener) {
        if (!AnswerBare(fd, store)) ::close(fd);
        continue;
      }
      while ((fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        event.events = EPOLLIN;
        event.data.fd = fd;
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argc == 2 ? argv[1] : "";
  if (kind != "evhttp" && kind != "epoll") {
    std::fputs("usage: evhttp_baseline evhttp|epoll\n", stderr);
    return 2;
  }
  uint16_t port = 0;
  const int listener = Listen(&port);
  std::printf("127.0.0.1 %u\n", unsigned{port});
  std::fflush(stdout);
  if (kind == "evhttp") return ServeEvhttp(listener);
  ServeBare(listener);
}
