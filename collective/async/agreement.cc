// SPDX-License-Identifier: Apache-2.0
#include "collective/async/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "collective/communicator.h"

namespace hvdray {
namespace {

std::string ShapeText(const Request& request) {
  return fmt::format("[{}]", fmt::join(request.shape, ", "));
}

bool HasData(RequestKind kind) {
  return kind == RequestKind::kAllReduce || kind == RequestKind::kAllGather ||
         kind == RequestKind::kBroadcast || kind == RequestKind::kAllToAll ||
         kind == RequestKind::kReduceScatter;
}

bool IsReducing(RequestKind kind) {
  return kind == RequestKind::kAllReduce || kind == RequestKind::kReduceScatter;
}

// The first dimension may differ, where results are of rows.
bool HasRows(RequestKind kind) {
  return kind == RequestKind::kAllGather || kind == RequestKind::kAllToAll;
}

bool ShapesAgree(const Request& a, const Request& b) {
  if (!HasRows(a.kind)) return a.shape == b.shape;
  if (a.shape.empty() || b.shape.empty()) return a.shape == b.shape;
  return std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

// What two requests differ in, and how each has it.
struct Difference {
  std::string_view what;
  std::string first;
  std::string second;
};

Difference Compare(const Request& a, const Request& b) {
  if (a.kind != b.kind) return {"operations", std::string(Name(a.kind)), std::string(Name(b.kind))};
  const auto device = [](const Request& request) { return request.is_on_device ? "GPU" : "CPU"; };
  if (a.kind == RequestKind::kAddProcessSet || a.kind == RequestKind::kRemoveProcessSet) {
    if (a.numbers == b.numbers) return {};
    return {"process sets", fmt::format("[{}]", fmt::join(a.numbers, ", ")),
            fmt::format("[{}]", fmt::join(b.numbers, ", "))};
  }
  if (!HasData(a.kind)) return {};
  if (a.is_on_device != b.is_on_device) return {"devices", device(a), device(b)};
  if (a.type != b.type) {
    return {"data types", std::string(NameOfType(a.type)), std::string(NameOfType(b.type))};
  }
  if (IsReducing(a.kind) && a.op != b.op) {
    return {"reduction operations", std::string(Name(static_cast<ReduceOp>(a.op))),
            std::string(Name(static_cast<ReduceOp>(b.op)))};
  }
  if (a.prescale != b.prescale || a.postscale != b.postscale) {
    const auto text = [](const Request& request) {
      return fmt::format("prescale {} and postscale {}", request.prescale, request.postscale);
    };
    return {"scales", text(a), text(b)};
  }
  if (a.kind == RequestKind::kBroadcast && a.root != b.root) {
    return {"root ranks", std::to_string(a.root), std::to_string(b.root)};
  }
  if (!ShapesAgree(a, b)) return {"shapes", ShapeText(a), ShapeText(b)};
  if (a.group_size != b.group_size || a.group != b.group) {
    const auto text = [](const Request& request) {
      return request.group_size == 0 ? std::string("none")
                                     : fmt::format("one of {}", request.group_size);
    };
    return {"groups", text(a), a.group_size == b.group_size ? "another one" : text(b)};
  }
  return {};
}

// What is wrong with one rank's own; empty: nothing.
std::string Problem(const Request& request, size_t members) {
  if (!HasRows(request.kind) && request.kind != RequestKind::kReduceScatter) return {};
  if (request.shape.empty()) return "has no dimension";
  if (request.kind != RequestKind::kAllToAll) return {};
  const int64_t rows = request.shape[0];
  if (request.numbers.empty()) {
    if (rows % static_cast<int64_t>(members) == 0) return {};
    return fmt::format("has {} rows, which are not a multiple of {} ranks", rows, members);
  }
  if (request.numbers.size() != members) {
    return fmt::format("has {} splits for {} ranks", request.numbers.size(), members);
  }
  // Differences rather than a sum, which could overflow.
  int64_t left = rows;
  for (const int64_t split : request.numbers) {
    if (split < 0 || split > left) {
      return fmt::format("has splits [{}] of {} rows", fmt::join(request.numbers, ", "), rows);
    }
    left -= split;
  }
  return {};
}

}  // namespace

Status CheckAgreement(std::span<const Request* const> requests,
                      std::span<const Request* const> joined, std::span<const int> ranks) {
  const auto is_there = [](const Request* request) { return request != nullptr; };
  const auto first = std::find_if(requests.begin(), requests.end(), is_there) - requests.begin();
  const Request& one = *requests[static_cast<size_t>(first)];
  const std::string name = fmt::format("{} '{}'", Name(one.kind), one.name);
  for (size_t i = static_cast<size_t>(first); i < requests.size(); ++i) {
    if (requests[i] == nullptr) continue;
    const Difference difference = Compare(one, *requests[i]);
    if (!difference.what.empty()) {
      return {ErrorCode::kUsage,
              fmt::format("Mismatched {} of {}: rank {} has {}, rank {} has {}", difference.what,
                          name, ranks[static_cast<size_t>(first)], difference.first, ranks[i],
                          difference.second)};
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == nullptr) {
      if (one.kind == RequestKind::kAllReduce && (!one.is_on_device || joined[i]->is_on_device)) {
        continue;
      }
      return {ErrorCode::kUsage,
              fmt::format("{}: only an allreduce{} can run after rank {} has joined", name,
                          one.kind == RequestKind::kAllReduce ? " on CPUs" : "", ranks[i])};
    }
    const std::string problem = Problem(*requests[i], requests.size());
    if (!problem.empty()) {
      return {ErrorCode::kUsage, fmt::format("{}: rank {} {}", name, ranks[i], problem)};
    }
  }
  return {};
}

bool GoTogether(const Request& a, const Request& b) {
  return a.process_set == b.process_set && a.is_on_device == b.is_on_device && a.type == b.type &&
         a.op == b.op && a.prescale == b.prescale && a.postscale == b.postscale;
}

void AppendSplits(const Request& request, size_t members, std::vector<int64_t>& rows) {
  if (request.numbers.empty()) {
    rows.insert(rows.end(), members, request.shape[0] / static_cast<int64_t>(members));
  } else {
    rows.insert(rows.end(), request.numbers.begin(), request.numbers.end());
  }
}

}  // namespace hvdray
