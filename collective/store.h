// SPDX-License-Identifier: Apache-2.0
// A client of Horovod's key-value rendezvous: how ranks that know only an address find each other.
#ifndef HVDRAY_COLLECTIVE_STORE_H_
#define HVDRAY_COLLECTIVE_STORE_H_

#include <functional>
#include <memory>
#include <string>

#include "base/http_client.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Keys of one scope. Blocks in each call. Threads: one caller at a time.
/// Errors: as HttpClient when the rendezvous cannot be reached, kKvRejected when it refuses.
class Store {
 public:
  /// Connects with the first request. A rendezvous that does not answer is an error after `timeout`
  /// and 5 s, or after 30 s. check: as CommunicatorOptions has it.
  Store(const std::string& host, uint16_t port, std::string scope, Duration timeout,
        std::function<Status()> check = {});

  Status Set(const std::string& key, const std::string& value);
  /// The value, once it is there. kDeadlineExceeded after `timeout`, naming scope and key.
  Result<std::string> Get(const std::string& key, Duration timeout);
  Status Delete(const std::string& key);

 private:
  std::string PathOf(const std::string& key) const;
  HttpClient client_;
  std::string scope_;
  std::function<Status()> check_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_STORE_H_
