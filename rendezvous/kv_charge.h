// What the store and the caches of relays charge for an entry. Pure.
#ifndef HVDRAY_RENDEZVOUS_KV_CHARGE_H_
#define HVDRAY_RENDEZVOUS_KV_CHARGE_H_

#include <cstddef>
#include <string_view>

#include "rendezvous/kv_upstream.h"

namespace hvdray {

inline size_t ChargeOf(std::string_view key, const KvValue& value) {
  return kKvEntryOverhead + key.size() + value->size();
}

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_KV_CHARGE_H_
