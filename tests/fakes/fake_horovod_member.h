// SPDX-License-Identifier: Apache-2.0
// A worker as the rendezvous sees it: walks the scopes of hvd.init() as Horovod's client does (spec
// 2.2, 2.4), on a FakeKvNetwork, and notes every value that is not of its own round.
#ifndef HVDRAY_TESTS_FAKES_FAKE_HOROVOD_MEMBER_H_
#define HVDRAY_TESTS_FAKES_FAKE_HOROVOD_MEMBER_H_

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_kv_network.h"

namespace hvdray {

/// A mesh scope from one member's view.
struct FakeMesh {
  std::string scope;
  int rank = 0;
  int size = 1;
};

/// The connections that members make directly: here only "all n have come to this point".
class FakeBarriers {
 public:
  void Arrive(const std::string& name, int size, std::function<void()> go_on) {
    auto& waiting = waiting_[name];
    waiting.push_back(std::move(go_on));
    if (static_cast<int>(waiting.size()) < size) return;
    for (auto& next : std::exchange(waiting, {})) next();
  }

 private:
  std::map<std::string, std::vector<std::function<void()>>> waiting_;
};

class FakeHorovodMember {
 public:
  /// 0.23 and later wait for each other before DELETE; 0.20-0.22 do not.
  enum class Barrier : uint8_t { kBeforeDelete, kNone };

  FakeHorovodMember(FakeKvNetwork& network, FakeBarriers& barriers, int host, int worker,
                    int local_rank, Generation generation)
      : network_(network), barriers_(barriers), host_(host), worker_(worker) {
    slot_ = JoinSlot(network.host_name(host), local_rank);
    network_.OpenWorker(host, worker, local_rank, generation);
  }
  FakeHorovodMember(const FakeHorovodMember&) = delete;
  FakeHorovodMember& operator=(const FakeHorovodMember&) = delete;
  ~FakeHorovodMember() { Kill(); }

  /// SIGKILL, reaped: says nothing more; what it has sent is on its way.
  void Kill() {
    if (!std::exchange(*is_alive_, false)) return;
    network_.CloseWorker(host_, worker_);
  }

  /// Walks the scopes, `round` marking the values. `done` is called at the end.
  void Init(std::vector<FakeMesh> meshes, std::string round, std::function<void()> done) {
    meshes_ = std::move(meshes);
    round_ = std::move(round);
    done_ = std::move(done);
    mesh_index_ = 0;
    NextMesh();
  }
  void AskPlace(std::function<void(std::string)> done) {
    Ask("GET", "rank_and_size", slot_, "", [done](int, const std::string& body) { done(body); });
  }

  void set_barrier(Barrier barrier) { barrier_ = barrier; }
  bool is_alive() const { return *is_alive_; }
  int host() const { return host_; }
  int worker() const { return worker_; }
  const std::string& slot() const { return slot_; }
  /// What Horovod would have died of, or worse, not noticed.
  const std::vector<std::string>& faults() const { return faults_; }

  static std::string ValueOf(const FakeMesh& mesh, int rank, const std::string& round) {
    return mesh.size == 1 ? std::string() : fmt::format("{}/{}@{}", mesh.scope, rank, round);
  }

 private:
  using Answered = std::function<void(int, const std::string&)>;

  const FakeMesh& mesh() const { return meshes_[mesh_index_]; }

  void Ask(const std::string& method, const std::string& scope, const std::string& key,
           std::string body, Answered answered) {
    network_.Request(host_, worker_, method, fmt::format("/{}/{}", scope, key), std::move(body),
                     [this, alive = is_alive_, answered = std::move(answered), method, scope, key](
                         int status, const std::string& text) {
                       if (!*alive) return;
                       const bool may_miss = method == "GET" && scope != "rank_and_size";
                       if (status != 200 && !(may_miss && status == 404)) {
                         Fault(fmt::format("{} {}/{}: status {}", method, scope, key, status));
                       }
                       answered(status, text);
                     });
  }
  void Fault(std::string text) { faults_.push_back(fmt::format("{}: {}", slot_, text)); }

  void NextMesh() {
    if (mesh_index_ == meshes_.size()) return done_();
    Ask("PUT", mesh().scope, fmt::format("rank_{}", mesh().rank), network_.host_name(host_),
        [this](int, const std::string&) { ReadRankName(0); });
  }
  void ReadRankName(int i) {
    if (i == mesh().rank) return Publish();
    Ask("GET", mesh().scope, fmt::format("rank_{}", i), "",
        [this, i](int, const std::string&) { ReadRankName(i + 1); });
  }
  void Publish() {
    Ask("PUT", mesh().scope, fmt::format("{}", mesh().rank), ValueOf(mesh(), mesh().rank, round_),
        [this](int, const std::string&) { ReadValue(0, 0); });
  }
  /// Once until it is there, then once more, as wait() and get() do.
  void ReadValue(int i, int found) {
    if (i == mesh().size) return Meet();
    if (i == mesh().rank) return ReadValue(i + 1, 0);
    Ask("GET", mesh().scope, fmt::format("{}", i), "",
        [this, i, found](int status, const std::string& body) {
          if (status == 404) return PollAgain(i, found);
          if (body != ValueOf(mesh(), i, round_)) {
            Fault(fmt::format("{}/{} gave '{}' in round {}", mesh().scope, i, body, round_));
          }
          found == 0 ? ReadValue(i, 1) : ReadValue(i + 1, 0);
        });
  }
  void PollAgain(int i, int found) {
    if (found != 0) Fault(fmt::format("{}/{} was there and is gone", mesh().scope, i));
    // Horovod's own clock of 30 s is not ours: a schedule here may be as slow as it likes.
    network_.After(std::chrono::milliseconds(10), [this, alive = is_alive_, i] {
      if (*alive) ReadValue(i, 0);
    });
  }
  void Meet() {
    if (barrier_ == Barrier::kNone) return Leave();
    barriers_.Arrive(fmt::format("{}@{}", mesh().scope, round_), mesh().size,
                     [this, alive = is_alive_] {
                       if (*alive) Leave();
                     });
  }
  void Leave() {
    Ask("DELETE", mesh().scope, fmt::format("{}", mesh().rank), "",
        [this](int, const std::string&) {
          ++mesh_index_;
          NextMesh();
        });
  }

  FakeKvNetwork& network_;
  FakeBarriers& barriers_;
  int host_;
  int worker_;
  std::string slot_;
  Barrier barrier_ = Barrier::kBeforeDelete;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // with callbacks under way
  std::vector<FakeMesh> meshes_;
  size_t mesh_index_ = 0;
  std::string round_;
  std::function<void()> done_;
  std::vector<std::string> faults_;
};

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_FAKE_HOROVOD_MEMBER_H_
