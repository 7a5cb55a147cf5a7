// SPDX-License-Identifier: Apache-2.0
// What C has a pointer to; tests make some in one process.
#ifndef HVDRAY_COLLECTIVE_ASYNC_ASYNC_HANDLE_H_
#define HVDRAY_COLLECTIVE_ASYNC_ASYNC_HANDLE_H_

#include <memory>

#include "collective/async/async.h"
#include "collective/async/core.h"

struct hvdray_async {
  std::unique_ptr<hvdray::AsyncCore> core;
  hvdray_place place{};
};

#endif  // HVDRAY_COLLECTIVE_ASYNC_ASYNC_HANDLE_H_
