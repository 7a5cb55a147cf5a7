// SPDX-License-Identifier: Apache-2.0
// Decides what runs, and in which order. All ranks run it on the same messages and so come to the
// same plan: no rank is special, and no answer is waited for. Pure: opens nothing, reads no clock.
#ifndef HVDRAY_COLLECTIVE_ASYNC_NEGOTIATOR_H_
#define HVDRAY_COLLECTIVE_ASYNC_NEGOTIATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "collective/async/plan.h"
#include "collective/async/request.h"

namespace hvdray {

/// An operation that some ranks wait for.
struct WaitingOperation {
  std::string name;
  int process_set = 0;
  TimePoint since;
  std::vector<int> missing;  ///< Global ranks that have not submitted it.
};

/// State that is the same on all ranks after the same rounds. Threads: one caller at a time.
class Negotiator {
 public:
  Negotiator(int rank, int size, NegotiationSettings settings);
  ~Negotiator();

  /// This rank's message for the next round: `message` with these requests, which stay until plans
  /// have had them. A name is submitted once until a plan has it.
  std::string MessageOf(std::span<OwnRequest* const> requests, RoundMessage message);

  /// messages: of all ranks, in order. now: for Waiting() only. Errors: kAborted when a rank has
  /// sent what none can: all must end.
  Result<Plan> Round(std::span<const std::string_view> messages, TimePoint now);

  /// What waits for ranks, oldest first.
  std::vector<WaitingOperation> Waiting() const;
  /// The time of the oldest of them; TimePoint::max() when there is none.
  TimePoint OldestSince() const;

  /// Called with each request of each rank, as it comes.
  void OnArrival(std::function<void(int rank, const Request&)> act) {
    on_arrival_ = std::move(act);
  }

  /// Global ranks of each process set.
  std::map<int, std::vector<int>> ProcessSets() const;

 private:
  struct ProcessSet;
  struct Slot;
  struct Entry;

  void Insert(int id, std::vector<int> ranks);
  Status Take(int rank, const RoundMessage& message, TimePoint now);
  Result<std::shared_ptr<const Entry>> Learn(int rank, std::string_view bytes, OwnRequest* own);
  void Refuse(int rank, const std::shared_ptr<const Entry>& entry, const OwnRequest* own);
  Status Put(int rank, std::shared_ptr<const Entry> entry, const OwnRequest* own, TimePoint now);
  bool IsReady(const Slot& slot) const;
  std::string LongestWait() const;
  void Check(Slot& slot);
  void FailWithGroups();
  void CollectReady(std::vector<PlannedOperation>& ready);
  PlannedOperation Finish(Slot& slot);
  void AddSet(PlannedOperation& operation);
  void RemoveSet(PlannedOperation& operation);
  void FinishJoins(std::vector<PlannedOperation>& ready);

  std::function<void(int, const Request&)> on_arrival_;
  int rank_;
  int size_;
  NegotiationSettings settings_;
  std::map<int, std::shared_ptr<ProcessSet>> sets_;
  int next_set_ = 1;
  uint64_t next_serial_ = 1;
  /// For each rank: its requests by number.
  std::vector<std::vector<std::shared_ptr<const Entry>>> known_;
  std::unordered_map<std::string, uint32_t> own_numbers_;  ///< Of this rank's encoded requests.
  uint32_t era_ = 1;                                       ///< Of own_numbers_.
  std::vector<OwnRequest*> own_known_;                     ///< In this round, by number.
  std::vector<OwnRequest*> own_fresh_;                     ///< In this round, as they were sent.
  std::vector<std::shared_ptr<Slot>> pending_;             ///< By the arrival of their first.
  std::vector<PlannedOperation> refused_;                  ///< In this round, on arrival.
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_NEGOTIATOR_H_
