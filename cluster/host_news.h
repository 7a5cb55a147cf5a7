// What of a source's answers is worth telling: changes, not repetitions. Pure.
#ifndef HVDRAY_CLUSTER_HOST_NEWS_H_
#define HVDRAY_CLUSTER_HOST_NEWS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/host_slots.h"
#include "base/status.h"

namespace hvdray {

class HostNews {
 public:
  /// The first list, one with other hosts, slots or addresses, or any behind a failure. The order
  /// does not count: many a script prints a set.
  bool IsNews(const std::vector<HostSlots>& hosts);
  /// The first failure behind a list, or one for another reason.
  bool IsNews(const Status& failure);
  /// A warning that is not the last answer's. Before that answer's list.
  bool IsNewWarning(const std::string& warning);

 private:
  std::optional<std::vector<HostSlots>> hosts_;  // by name
  Status failure_;                               // ok: the last answer was a list
  std::string warning_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_HOST_NEWS_H_
