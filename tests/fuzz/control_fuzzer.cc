// SPDX-License-Identifier: Apache-2.0
// Bytes of a hostile client into the control socket of `hvdray serve`. How they were cut must not
// matter, nothing may come before its hello or after its end, and what is passed on must keep the
// limits of docs/serve.md. Byte 0 of the input: how the bytes are cut.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "launcher/engine/control_link.h"

namespace {

using namespace hvdray;

void CheckRanks(const control::Ranks& to) {
  for (const int rank : to) HVDRAY_CHECK(rank >= 0);
}

/// What must hold of a request that passed; its text for the transcript.
struct Told {
  std::string operator()(const control::Hello& hello) const {
    HVDRAY_CHECK(hello.protocol == kControlProtocol);
    return fmt::format("hello {}\n", hello.client);
  }
  std::string operator()(const control::Start& start) const {
    HVDRAY_CHECK(start.gang > 0 && start.np >= 0 && start.blob.size() <= kMaxControlBlob);
    std::string told = fmt::format("start {} {} {} {}\n", start.gang, start.np,
                                   start.has_data ? DumpJson(start.data) : "-", start.blob);
    for (const auto& [name, value] : start.env) {
      HVDRAY_CHECK(!name.empty() && name.find('=') == std::string::npos);
      HVDRAY_CHECK(value.find('\0') == std::string::npos);
      told += name + '=' + value + '\n';
    }
    return told;
  }
  std::string operator()(const control::Send& send) const {
    HVDRAY_CHECK(send.blob.size() <= kMaxControlBlob);
    CheckRanks(send.to);
    return fmt::format("send {} {} {}\n", send.gang, DumpJson(send.data), send.blob);
  }
  std::string operator()(const control::Signal& signal) const {
    HVDRAY_CHECK(signal.signo >= 1 && signal.signo <= 64);
    CheckRanks(signal.to);
    return fmt::format("signal {} {}\n", signal.gang, signal.signo);
  }
  std::string operator()(const control::Stop& stop) const {
    HVDRAY_CHECK(stop.grace >= Duration::zero());
    return fmt::format("stop {} {}\n", stop.gang, stop.grace.count());
  }
  std::string operator()(const control::Put& put) const {
    return fmt::format("put {} {}\n", put.object, put.size);
  }
  std::string operator()(const control::Drop& drop) const {
    return fmt::format("drop {}\n", drop.object);
  }
  std::string operator()(const control::Flush& /*flush*/) const { return "flush\n"; }
  std::string operator()(const control::Hosts& hosts) const {
    std::string told = fmt::format("hosts {}\n", hosts.is_final);
    for (const std::string& host : hosts.hosts) {
      HVDRAY_CHECK(!host.empty() && host.find('\n') == std::string::npos);
      told += host + '\n';
    }
    return told;
  }
  std::string operator()(const control::Notify& notify) const {
    HVDRAY_CHECK(notify.timestamp >= 0);
    return fmt::format("notify {} {}\n", notify.to.size(), notify.timestamp);
  }
  std::string operator()(const control::Warm& warm) const {
    HVDRAY_CHECK(!warm.preload.empty());
    return fmt::format("warm {} {}\n", warm.preload.size(), warm.env.size());
  }
  // The link keeps these to itself.
  std::string operator()(const control::Credit&) const { return Passed(); }
  std::string operator()(const control::Bye&) const { return Passed(); }
  static std::string Passed() {
    HVDRAY_CHECK(false);
    return {};
  }
};

/// Checks the order of what a link tells, and keeps it as text.
struct Listener final : ControlLink::Owner {
  void OnRequest(ControlRequest request) override {
    HVDRAY_CHECK(!is_gone && left_before == 0);
    HVDRAY_CHECK(std::holds_alternative<control::Hello>(request) != is_greeted);
    is_greeted = true;
    if (const auto* put = std::get_if<control::Put>(&request)) left_before = put->size;
    told += std::visit(Told(), request);
  }
  void OnPiece(ByteView piece, uint64_t left) override {
    HVDRAY_CHECK(!is_gone && !piece.empty());
    HVDRAY_CHECK(left + piece.size() == left_before);
    left_before = left;
    told += piece;
  }
  void OnGone(const Status& why) override {
    HVDRAY_CHECK(!is_gone);
    is_gone = true;
    HVDRAY_CHECK(why.ok() || why.code() == ErrorCode::kProtocolError);
    HVDRAY_CHECK(ShownLine(why.message()) == why.message());
    told += "gone " + why.ToString();
  }
  void OnRoom() override {}

  std::string told;
  bool is_greeted = false;
  bool is_gone = false;
  uint64_t left_before = 0;
};

/// All that is told of `input`, with the pieces of each object put together.
std::string Transcript(ByteView input, size_t step) {
  const std::unique_ptr<Loop> loop = Loop::Create().value();
  auto [ours, theirs] = MakeSocketPair().value();
  Listener listener;
  const std::unique_ptr<ControlLink> link =
      ControlLink::Open(*loop, std::move(ours), Duration::zero(), listener).value();
  while (!listener.is_gone) {
    if (!input.empty()) {
      const ssize_t n = ::send(theirs.get(), input.data(), std::min(step, input.size()),
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) input.remove_prefix(static_cast<size_t>(n));
    } else {
      ::shutdown(theirs.get(), SHUT_WR);
    }
    const Watch turn = loop->After(Duration::zero(), [&] { loop->Stop(); });
    loop->Run();
  }
  return listener.told;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = Transcript(input, size_t{1} << 16);
  HVDRAY_CHECK(Transcript(input, 1 + data[0] % 7) == whole);
  return 0;
}
