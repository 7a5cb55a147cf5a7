// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/client_gang.h"

#include <fmt/format.h>

#include <utility>

#include "base/message_stream.h"

namespace hvdray {

Json ControlMessage(std::string_view type) {
  Json json;
  json["type"] = type;
  return json;
}

std::shared_ptr<const std::string> DataMessage(const Json& data, ByteView blob) {
  Json head = ControlMessage("data");
  head["data"] = data;
  if (!blob.empty()) head["blob"] = blob.size();
  std::string bytes = MessageLine(head);
  bytes += blob;
  return std::make_shared<const std::string>(std::move(bytes));
}

Status ClientGang::CheckStart(const control::Start& start) const {
  if (is_alive()) {
    return {ErrorCode::kUsage, fmt::format("gang {} is still running", start_.gang)};
  }
  if (start.gang > last_number_) return {};
  return {ErrorCode::kUsage,
          fmt::format("gang numbers must increase ({} after {})", start.gang, last_number_)};
}

void ClientGang::Begin(control::Start start) {
  last_number_ = start.gang;
  start_ = std::move(start);
  start_data_ = start_.has_data ? DataMessage(start_.data, start_.blob) : nullptr;
}

int64_t ClientGang::End() { return std::exchange(start_, {}).gang; }

void ClientGang::ClearWorkers() {
  workers_.clear();
  members_.clear();
  is_ready_owed_ = false;
}

void ClientGang::SetMembers(const std::vector<RankInfo>& ranks, const std::vector<int>& workers) {
  members_ = workers;
  is_ready_owed_ = true;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const auto known = workers_.find(workers[rank]);
    if (known != workers_.end()) known->second.place = ranks[rank];
  }
}

void ClientGang::SetMember(int worker) {
  int& member = members_[static_cast<size_t>(workers_.at(worker).place.rank)];
  is_ready_owed_ = is_ready_owed_ || member != worker;
  member = worker;
}

void ClientGang::SetPid(int worker, uint32_t pid) {
  if (const auto known = workers_.find(worker); known != workers_.end()) known->second.pid = pid;
}

void ClientGang::Greet(int worker, const Json& hello) {
  const auto known = workers_.find(worker);
  if (known == workers_.end()) return;
  known->second.is_greeted = true;
  known->second.python = hello.value("python", Json());
}

std::optional<Json> ClientGang::TakeReady() {
  if (!is_ready_owed_) return std::nullopt;
  Json ready = ControlMessage("ready");
  ready["gang"] = start_.gang;
  ready["workers"] = Json::array();
  for (const int member : members_) {
    const auto known = workers_.find(member);
    if (known == workers_.end()) return std::nullopt;
    const Worker& worker = known->second;
    if (!worker.is_greeted || worker.pid == 0) return std::nullopt;
    Json row;
    row["rank"] = worker.place.rank;
    row["host"] = worker.place.host;
    row["local_rank"] = worker.place.local_rank;
    row["worker"] = member;
    row["pid"] = worker.pid;
    row["python"] = worker.python;
    ready["workers"].push_back(std::move(row));
  }
  is_ready_owed_ = false;
  return ready;
}

Result<std::vector<int>> ClientGang::Find(int64_t gang, const control::Ranks& ranks) const {
  if (start_.gang != gang || members_.empty()) {
    return Status(ErrorCode::kUsage, fmt::format("gang {} does not run", gang));
  }
  if (ranks.empty()) return members_;
  std::vector<int> workers;
  for (const int rank : ranks) {
    if (static_cast<size_t>(rank) >= members_.size()) {
      return Status(ErrorCode::kUsage, fmt::format("gang {} has no rank {}", gang, rank));
    }
    workers.push_back(members_[static_cast<size_t>(rank)]);
  }
  return workers;
}

Json ClientGang::About(std::string_view type, int worker) const {
  const auto known = workers_.find(worker);
  Json message = ControlMessage(type);
  message["gang"] = start_.gang;
  message["worker"] = worker;
  message["rank"] = known == workers_.end() ? worker : known->second.place.rank;
  return message;
}

}  // namespace hvdray
