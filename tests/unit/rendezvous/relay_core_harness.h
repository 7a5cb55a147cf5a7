// SPDX-License-Identifier: Apache-2.0
// A relay core with its replies and questions at hand; the test plays workers and launcher.
#ifndef HVDRAY_TESTS_UNIT_RENDEZVOUS_RELAY_CORE_HARNESS_H_
#define HVDRAY_TESTS_UNIT_RENDEZVOUS_RELAY_CORE_HARNESS_H_

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "rendezvous/relay_core.h"

namespace hvdray {

inline KvValue KvText(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

class RelayCoreHarness : public testing::Test {
 protected:
  explicit RelayCoreHarness(RelayCoreOptions options = {}) : core_(options) {}

  /// Workers 0.. with slots "h:0".. in generation 1.
  void OpenWorkers(int count, Generation generation = 1) {
    for (int i = 0; i < count; ++i) core_.OpenWorker(i, JoinSlot("h", i), generation);
  }

  uint64_t Send(int worker, const std::string& method, const std::string& target,
                const std::string& body = {}) {
    const ParsedKvRequest parsed = ParseKvRequest(method, target, true);
    EXPECT_EQ(parsed.status, 200) << target;
    const uint64_t id = ++last_request_;
    core_.OnRequest(worker, id, parsed.call, KvText(body), now_, &out_);
    return id;
  }
  uint64_t Put(int worker, const std::string& target, const std::string& body) {
    return Send(worker, "PUT", target, body);
  }
  uint64_t Get(int worker, const std::string& target) { return Send(worker, "GET", target); }
  uint64_t Delete(int worker, const std::string& target) { return Send(worker, "DELETE", target); }

  /// The next question that goes upstream; a failure if there is none.
  KvQuestion NextQuestion() {
    if (out_.questions.empty()) {
      ADD_FAILURE() << "no question";
      return {};
    }
    KvQuestion question = std::move(out_.questions.front());
    out_.questions.pop_front();
    return question;
  }
  bool HasQuestion() const { return !out_.questions.empty(); }
  bool HasReply() const { return !out_.replies.empty(); }

  /// "200 body", "404", or "-" when that request has no reply yet. Takes the reply out.
  std::string ReplyTo(uint64_t request) {
    for (auto reply = out_.replies.begin(); reply != out_.replies.end(); ++reply) {
      if (reply->request != request) continue;
      std::string text = std::to_string(reply->status);
      if (reply->body && !reply->body->empty()) text += " " + *reply->body;
      out_.replies.erase(reply);
      return text;
    }
    return "-";
  }

  void Answer(const KvQuestion& question, int status, std::string key = {}, KvValue value = {}) {
    AnswerIn(core_.generation(), question, status, std::move(key), std::move(value));
  }
  void AnswerIn(Generation generation, const KvQuestion& question, int status, std::string key = {},
                KvValue value = {}) {
    core_.OnAnswer(KvAnswer{question.id, generation, status, std::move(key), std::move(value)},
                   &out_);
  }
  /// The launcher has answered a follow with all that there was, here nothing.
  void AnswerNothingYet(const KvQuestion& follow) { Answer(follow, 404); }
  void Reset(Generation generation) { core_.Reset(generation, now_, &out_); }
  void Advance(Duration time) {
    now_ += time;
    core_.OnTick(now_, &out_);
  }

  RelayCore core_;
  RelayActions out_;
  TimePoint now_{std::chrono::seconds(50)};
  uint64_t last_request_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_RENDEZVOUS_RELAY_CORE_HARNESS_H_
