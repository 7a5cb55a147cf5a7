// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_serve.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/message_stream.h"
#include "base/sealed_memory.h"
#include "cluster/ray/ray_attach.h"
#include "cluster/ray/ray_run.h"
#include "launcher/engine/control_link.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

// What is recorded is held in memory; no package could hold more.
constexpr size_t kMaxRecording = size_t{1} << 30;
constexpr size_t kMemoryPiece = size_t{4} << 20;
// For a client that reads slowly, or not at all.
constexpr Duration kCloseTimeout = std::chrono::seconds(5);

Json Message(std::string_view type) {
  Json json;
  json["type"] = type;
  return json;
}

/// What a client says, in the form of docs/serve.md.
class Recording {
 public:
  Recording() {
    Json hello = Message("hello");
    hello["protocol"] = kControlProtocol;
    bytes_ = MessageLine(hello);
  }

  void Add(const control::Start& start) {
    Json head = Message("start");
    head["gang"] = start.gang;
    if (start.np > 0) head["np"] = start.np;
    head["env"] = Json::object();
    for (const auto& [name, value] : start.env) head["env"][name] = value;
    head["objects"] = start.objects;
    if (start.has_data) head["data"] = start.data;
    if (!start.blob.empty()) head["blob"] = start.blob.size();
    bytes_ += MessageLine(head);
    bytes_ += start.blob;
  }

  /// An object that comes as memory is copied; of another one Piece() takes the bytes. Errors:
  /// kPackageTooLarge, those of SealedSize() and ReadMemory().
  Status Add(const control::Put& put) {
    uint64_t size = put.size;
    if (put.memory != nullptr) {
      HVDRAY_ASSIGN_OR_RETURN(size, SealedSize(put.memory->get()));
    }
    if (size > kMaxRecording || bytes_.size() + size > kMaxRecording) {
      return {ErrorCode::kPackageTooLarge,
              fmt::format("object {} has {} MiB, more than a job's package can hold", put.object,
                          size >> 20),
              "let the function read its data from where the nodes find it"};
    }
    Json head = Message("put");
    head["object"] = put.object;
    head["blob"] = size;
    bytes_ += MessageLine(head);
    for (uint64_t at = 0; put.memory != nullptr && at < size;) {
      HVDRAY_ASSIGN_OR_RETURN(const std::string piece,
                              ReadMemory(put.memory->get(), at, kMemoryPiece));
      if (piece.empty()) return {ErrorCode::kSystem, "an object is shorter than it was"};
      bytes_ += piece;
      at += piece.size();
    }
    return {};
  }
  void Piece(ByteView piece) { bytes_ += piece; }

  const std::string& bytes() const { return bytes_; }
  void Clear() { bytes_ = {}; }

 private:
  std::string bytes_;
};

class RayJobServe final : private ControlLink::Owner {
 public:
  RayJobServe(Loop& loop, LaunchPlan plan, ServeOptions options)
      : loop_(loop),
        plan_(std::move(plan)),
        options_(std::move(options)),
        reader_({[this](std::string_view type, const Json& head, uint64_t blob) {
                   return OnAnswer(type, head, blob);
                 },
                 [this](ByteView piece, uint64_t left) { return OnAnswerBlob(piece, left); }}) {}

  int Run(const HeadLink& head) {
    Status status = CheckFilesOfRayJob(plan_.spec);
    if (!status.ok()) return Refuse(status);
    const Result<RayJobPlan> job = PlanRayJob("serve", plan_, head);
    if (!job.ok()) return Refuse(job.status());
    status = Connect();
    if (!status.ok()) return Fail("serve", status);
    loop_.Run();  // until the client has said all, or is gone
    if (is_gone_) return 0;
    const int exit_code = too_large_.ok() ? RunJob(*job) : RefuseStart(too_large_);
    link_->Close(exit_code);
    DrainClient();
    return exit_code;
  }

 private:
  /// There is no client yet to say it to otherwise.
  int Refuse(const Status& why) {
    RefuseClient(options_.socket.get(), why, ExitCode(why));
    return ExitCode(why);
  }

  Status Connect() {
    HVDRAY_ASSIGN_OR_RETURN(
        link_, ControlLink::Open(loop_, std::move(options_.socket), options_.grace, *this));
    return {};
  }

  int RunJob(const RayJobPlan& job) {
    Result<RayAttachOptions> attach = SubmitRayJob("serve", plan_, job, recording_.bytes());
    recording_.Clear();
    if (!attach.ok()) return RefuseStart(attach.status());
    attach->is_stopped_at_once = is_stop_wanted_;
    attach->on_control = [this](ByteView message) { return reader_.Feed(message); };
    client_ = std::make_unique<RayJobClient>(loop_, std::move(attach).value());
    const int exit_code = client_->Run();
    const Status error = client_->error();
    const int signo = client_->stop_signo();
    if (!has_verdict_) TellWhy(exit_code);
    client_.reset();
    if (signo != 0) return 128 + signo;
    // How its gang has ended is the client's to judge.
    return has_verdict_ && error.ok() ? 0 : exit_code;
  }

  int RefuseStart(const Status& why) {
    link_->Send(RefusedMessage("start", why));
    return kHvdrayFailed;
  }

  /// The job has ended before its session could tell.
  void TellWhy(int exit_code) {
    const std::optional<StreamEnd>& end = client_->end();
    Status why = client_->error();
    if (why.ok()) {
      why = {ErrorCode::kRayFailed,
             fmt::format("job {} ended with exit code {} before its gang had", plan_.job_id,
                         exit_code)};
    }
    Json refused = RefusedMessage("start", why);
    if (end && !end->error_code.empty() && client_->error().ok()) {
      refused["code"] = end->error_code;
      refused["message"] = end->error_message;
      refused["hint"] = "";
    }
    link_->Send(refused);
  }

  /// Until the client has taken what was sent.
  void DrainClient() {
    const Watch limit = loop_.After(kCloseTimeout, [this] { loop_.Stop(); });
    const Watch look = loop_.Every(std::chrono::milliseconds(10), [this] {
      if (link_->IsFlushed()) loop_.Stop();
    });
    if (!link_->IsFlushed()) loop_.Run();
  }

  // ---- the client

  void OnRequest(ControlRequest request) override {
    std::visit([this](const auto& one) { On(one); }, request);
  }
  void OnPiece(ByteView piece, uint64_t /*left*/) override {
    if (is_recording_ && too_large_.ok()) recording_.Piece(piece);
  }
  void OnRoom() override {
    if (client_ != nullptr) client_->SetBusy(false);
  }
  void OnGone(const Status& why) override {
    if (!why.ok()) Log(LogLevel::kError, "serve", "{}", why.message());
    is_gone_ = true;
    if (is_recording_) return loop_.Stop();
    if (!has_verdict_) StopJob();
  }

  void StopJob() {
    is_stop_wanted_ = true;
    if (client_ != nullptr) client_->Stop();
  }

  void Refuse(std::string_view about, std::string why) {
    link_->Send(RefusedMessage(about, {ErrorCode::kNotSupported, std::move(why),
                                       "a job on Ray is one gang, which gets all with its start"}));
  }

  void On(const control::Hello& hello) {
    Log(LogLevel::kInfo, "serve", "client: {}", hello.client);
    link_->Send(HelloMessage(options_.build, options_.job_id));
  }
  void On(const control::Put& put) {
    if (!is_recording_) return Refuse("put", "the job has started");
    if (too_large_.ok()) too_large_ = recording_.Add(put);
  }
  void On(const control::Start& start) {
    if (!is_recording_) return Refuse("start", "this session has had its gang");
    gang_ = start.gang;
    recording_.Add(start);
    is_recording_ = false;
    loop_.Stop();
  }
  void On(const control::Stop& stop) {
    if (is_recording_ || stop.gang != gang_) {
      return Refuse("stop", fmt::format("gang {} does not run", stop.gang));
    }
    if (!has_verdict_) StopJob();
  }
  void On(const control::Send& /*send*/) { Refuse("send", "nothing reaches its workers later"); }
  void On(const control::Signal& /*signal*/) {
    Refuse("signal", "no signal but a stop reaches its workers");
  }
  void On(const control::Notify& /*notify*/) {
    Refuse("notify", "nothing reaches its workers later");
  }
  void On(const control::Hosts& /*hosts*/) { Refuse("hosts", "Ray chooses the nodes"); }
  void On(const control::Warm& /*warm*/) { Refuse("warm", "there are no hosts before its start"); }
  void On(const control::Flush& /*flush*/) {
    const auto answer = [this] { link_->Send(FlushedMessage()); };
    if (client_ == nullptr) return answer();
    client_->OnceWritten(answer);
  }
  void On(const control::Drop& /*drop*/) {}      // objects end with the job
  void On(const control::Credit& /*credit*/) {}  // the link's
  void On(const control::Bye& /*bye*/) {}

  // ---- the session in the cluster

  Status OnAnswer(std::string_view type, const Json& head, uint64_t blob) {
    if (blob > kMaxControlBlob || (blob > 0 && type != "data")) {
      return {ErrorCode::kProtocolError, "the job's session sends a blob of an unknown kind"};
    }
    answer_ = head;
    blob_.clear();
    const auto about = head.find("about");
    has_verdict_ = has_verdict_ || type == "stopped" ||
                   (type == "refused" && about != head.end() && *about == "start");
    return blob > 0 ? Status() : PassOn();
  }

  Status OnAnswerBlob(ByteView piece, uint64_t left) {
    blob_ += piece;
    return left > 0 ? Status() : PassOn();
  }

  Status PassOn() {
    if (answer_["type"] == "data") {
      link_->SendData(std::move(answer_), blob_);
    } else {
      link_->Send(answer_);
    }
    if (!link_->HasRoom() && client_ != nullptr) client_->SetBusy(true);
    return {};
  }

  Loop& loop_;
  LaunchPlan plan_;
  ServeOptions options_;
  std::unique_ptr<ControlLink> link_;
  Recording recording_;
  Status too_large_;  // why it can't be sent
  int64_t gang_ = 0;
  std::unique_ptr<RayJobClient> client_;
  MessageReader reader_;  // of the session's messages
  Json answer_;
  std::string blob_;
  bool is_recording_ = true;  // until start
  bool is_gone_ = false;
  bool is_stop_wanted_ = false;
  bool has_verdict_ = false;  // the client knows how its gang has ended
};

}  // namespace

int ServeOnRayJob(LaunchPlan plan, ServeOptions options, const HeadLink& link) {
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  // A machine that is lost must not leave a job behind whose result nobody gets.
  plan.spec.ray.stops_with_client.Set(true, "hvdray serve");
  return RayJobServe(**loop, std::move(plan), std::move(options)).Run(link);
}

}  // namespace hvdray
