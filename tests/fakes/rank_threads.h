// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of a test, which meet over a real rendezvous.
#ifndef HVDRAY_TESTS_FAKES_RANK_THREADS_H_
#define HVDRAY_TESTS_FAKES_RANK_THREADS_H_

#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "collective/communicator.h"
#include "rendezvous/standalone_server.h"

namespace hvdray {

/// Serves Horovod's rendezvous from a thread.
class Rendezvous {
 public:
  Rendezvous() : thread_([this] { Serve(); }) { port_ = started_.get_future().get(); }
  ~Rendezvous() {
    loop_->Stop();
    thread_.join();
  }
  uint16_t port() const { return port_; }

 private:
  void Serve() {
    loop_ = std::move(Loop::Create()).value();
    RendezvousOptions options;
    options.user = ::getuid();
    const auto server = std::move(RendezvousServer::Start(*loop_, std::move(options))).value();
    started_.set_value(server->port());
    loop_->Run();
  }

  std::unique_ptr<Loop> loop_;
  std::promise<uint16_t> started_;
  uint16_t port_ = 0;
  std::thread thread_;
};

/// Runs body(options) on a thread for each rank.
inline void OnRankThreads(int size, Duration timeout,
                          const std::function<void(CommunicatorOptions)>& body) {
  const Rendezvous rendezvous;
  CommunicatorOptions options;
  options.size = size;
  options.rendezvous_port = rendezvous.port();
  options.interface = "lo";
  options.scope = "test";
  options.timeout = timeout;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    options.rank = rank;
    threads.emplace_back(body, options);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_RANK_THREADS_H_
