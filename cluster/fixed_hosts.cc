#include "cluster/fixed_hosts.h"

#include <utility>

namespace hvdray {
namespace {

class FixedHosts final : public HostSource {
 public:
  FixedHosts(Loop& loop, std::vector<HostSlots> hosts) : loop_(loop), hosts_(std::move(hosts)) {}

  Status Start(Handlers handlers) override {
    on_hosts_ = std::move(handlers.on_hosts);
    timer_ = loop_.After(Duration::zero(), [this] {
      // The callee may destroy us, so the function it runs in must not be ours.
      const auto tell = std::exchange(on_hosts_, nullptr);
      tell(std::move(hosts_), /*is_final=*/true);
    });
    return {};
  }
  void Stop() override { timer_.Cancel(); }

 private:
  Loop& loop_;
  std::vector<HostSlots> hosts_;
  decltype(Handlers::on_hosts) on_hosts_;
  Watch timer_;
};

}  // namespace

std::unique_ptr<HostSource> MakeFixedHosts(Loop& loop, std::vector<HostSlots> hosts) {
  return std::make_unique<FixedHosts>(loop, std::move(hosts));
}

}  // namespace hvdray
