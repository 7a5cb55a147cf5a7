// SPDX-License-Identifier: Apache-2.0
// The questions of a relay to the launcher. Pure: no I/O, no clock.
//
// What always holds: ids rise. A question is open from Expect() until Take(), Drop() or Begin(),
// and its answers reach it only then; so an answer of an earlier store reaches none, but for a
// rank, which outlives stores.
#ifndef HVDRAY_RENDEZVOUS_UPSTREAM_QUESTIONS_H_
#define HVDRAY_RENDEZVOUS_UPSTREAM_QUESTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/types.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/relay_actions.h"
#include "rendezvous/relay_stats.h"

namespace hvdray {

/// A question to the launcher whose answers are still expected.
struct UpstreamQuestion {
  enum class Kind : uint8_t { kPass, kFetch, kFollow, kRankAndSize };
  Kind kind = Kind::kPass;
  uint64_t request = 0;  ///< 0: its peer is gone.
  int worker = -1;
  uint64_t stamp = 0;  ///< The scope's; 0: do not cache the answer.
  std::string scope;
  std::string key;
  KvValue value;  ///< Of a PUT.
};

/// Threads: one.
class UpstreamQuestions {
 public:
  /// Counts questions in `stats`, which outlives it.
  explicit UpstreamQuestions(RelayStats& stats) : stats_(stats) {}

  /// The store is that of `generation` from now on: drops all questions but those for a rank.
  void Begin(Generation generation) {
    generation_ = generation;
    std::erase_if(open_, [](const auto& entry) {
      return entry.second.kind != UpstreamQuestion::Kind::kRankAndSize;
    });
  }
  Generation generation() const { return generation_; }

  /// Sends a question and returns its id. Without Expect(), its answer is ignored.
  uint64_t Ask(KvOp op, int worker, std::string_view scope, std::string_view key, KvValue value,
               RelayActions* out) {
    ++stats_.upstream_questions;
    if (value) stats_.upstream_bytes += value->size();
    KvQuestion question;
    question.id = ++last_id_;
    question.generation = generation_;
    question.op = op;
    question.rank = worker;
    question.scope = scope;
    question.key = key;
    question.value = std::move(value);
    out->questions.push_back(std::move(question));
    return last_id_;
  }
  void Expect(uint64_t id, UpstreamQuestion question) { open_.emplace(id, std::move(question)); }

  /// nullptr: not open. Valid until it is closed.
  UpstreamQuestion* Find(uint64_t id) {
    const auto found = open_.find(id);
    return found == open_.end() ? nullptr : &found->second;
  }
  /// Closes an open question.
  UpstreamQuestion Take(uint64_t id) { return std::move(open_.extract(id).mapped()); }
  void Drop(uint64_t id) { open_.erase(id); }

 private:
  RelayStats& stats_;
  Generation generation_ = 0;
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, UpstreamQuestion> open_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_UPSTREAM_QUESTIONS_H_
