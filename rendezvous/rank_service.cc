// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/rank_service.h"

#include <memory>

#include "rendezvous/horovod_protocol.h"

namespace hvdray {

void RankService::Admit(std::string_view slot) {
  Forget(slot);
  slots_.emplace(std::string(slot), Slot{});
}

void RankService::Forget(std::string_view slot) {
  const auto it = slots_.find(slot);
  if (it == slots_.end()) return;
  Drop(it->second);
  slots_.erase(it);
}

void RankService::DropRelay(int relay) {
  for (auto& [name, slot] : slots_) {
    if (slot.is_waiting && slot.relay == relay) Drop(slot);
  }
}

bool RankService::Ask(int relay, const KvQuestion& question, std::vector<RankAnswer>* out) {
  const auto it = slots_.find(question.key);
  if (it == slots_.end() || is_closed_) {
    if (it == slots_.end()) ++refused_;
    Slot asker;
    asker.relay = relay;
    asker.question = question.id;
    out->push_back(AnswerOf(asker, kRemovedFromJob));
    return false;
  }
  Slot& slot = it->second;
  const bool is_news = !slot.is_waiting;
  if (is_news) ++held_;
  slot.is_waiting = true;
  slot.relay = relay;
  slot.question = question.id;
  return is_news;
}

bool RankService::Register(const KvQuestion& question) {
  const auto it = slots_.find(question.key);
  if (it == slots_.end()) {
    ++refused_;
    return false;
  }
  it->second.addresses = question.value;
  return true;
}

std::vector<RankAnswer> RankService::Publish(const KvAssignment& assignment) {
  generation_ = assignment.generation;
  std::vector<RankAnswer> answers;
  answers.reserve(held_);
  for (auto& [name, slot] : slots_) {
    if (!slot.is_waiting) continue;
    const auto place = assignment.rank_and_size.find(name);
    const bool is_in = place != assignment.rank_and_size.end();
    answers.push_back(AnswerOf(slot, is_in ? std::string_view(place->second) : kRemovedFromJob));
    Drop(slot);
  }
  return answers;
}

std::vector<RankAnswer> RankService::Close() {
  is_closed_ = true;
  return Publish({.generation = generation_, .scope_sizes = {}, .rank_and_size = {}});
}

KvValue RankService::AddressesOf(std::string_view slot) const {
  const auto it = slots_.find(slot);
  return it == slots_.end() ? nullptr : it->second.addresses;
}

RankAnswer RankService::AnswerOf(const Slot& slot, std::string_view text) const {
  KvAnswer answer;
  answer.id = slot.question;
  answer.generation = generation_;
  answer.value = std::make_shared<const std::string>(text);
  return {slot.relay, std::move(answer)};
}

void RankService::Drop(Slot& slot) {
  if (slot.is_waiting) --held_;
  slot.is_waiting = false;
}

}  // namespace hvdray
