// What --events says of the facts and effects that only elastic jobs have (docs/report.md). Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_ELASTIC_EVENT_LINES_H_
#define HVDRAY_LAUNCHER_REPORT_ELASTIC_EVENT_LINES_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "launcher/driver/elastic_events.h"
#include "launcher/report/elastic_names.h"
#include "wire/message.h"

namespace hvdray {

class ElasticEventLines {
 public:
  /// Lines without their times, "event" first. None for Tick, for what people alone are told, for
  /// an answer of the source that says the same as its last one, and for the kinds that static jobs
  /// have too.
  std::vector<Json> Lines(const ElasticEvent& event);
  std::vector<Json> Lines(const ElasticEffect& effect);
  Json Broken(int host, Generation generation, const wire::ConnectionsBroken& broken) const;

  std::string HostName(int host) const { return names_.HostName(host); }

 private:
  Json WorkerLine(std::string_view event, WorkerId worker) const;
  std::vector<Json> Discovered(const event::HostsDiscovered& found);
  std::vector<Json> Failed(const event::DiscoveryFailed& failed);
  std::vector<Json> Starting(const effect::StartWorkers& start) const;
  Json Published(const effect::PublishGeneration& publish) const;
  Json HostNames(const std::vector<int>& hosts) const;

  ElasticNames names_;
  std::string last_answer_;  // Of the source, as JSON; empty: none yet.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_ELASTIC_EVENT_LINES_H_
