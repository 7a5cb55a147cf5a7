// SPDX-License-Identifier: Apache-2.0
// Text that must not stay in memory after its use: passwords, passphrases, keys.
#ifndef HVDRAY_BASE_SECRET_H_
#define HVDRAY_BASE_SECRET_H_

#include <string.h>

#include <string_view>
#include <utility>
#include <vector>

namespace hvdray {

/// Wipes its memory when it is destroyed or assigned. Move-only: a copy must be asked for. Threads:
/// like any value.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text) {
    bytes_.reserve(text.size() + 1);  // once: a growing vector leaves its old bytes behind
    bytes_.assign(text.begin(), text.end());
    bytes_.push_back('\0');
  }
  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret&& other) noexcept {
    if (this == &other) return *this;
    Wipe();
    bytes_ = std::move(other.bytes_);
    return *this;
  }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() { Wipe(); }

  Secret Copy() const { return Secret(view()); }
  // Valid until this is moved, assigned or destroyed.
  std::string_view view() const { return {c_str(), bytes_.empty() ? 0 : bytes_.size() - 1}; }
  const char* c_str() const { return bytes_.empty() ? "" : bytes_.data(); }

 private:
  void Wipe() {
    if (bytes_.data() != nullptr) ::explicit_bzero(bytes_.data(), bytes_.size());
  }

  std::vector<char> bytes_;  // with a '\0' at the end, unless empty
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_SECRET_H_
