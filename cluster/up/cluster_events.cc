// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/cluster_events.h"

#include <utility>

#include "launcher/report/facts_json.h"
#include "launcher/report/line_file.h"

namespace hvdray {

ClusterEvents::ClusterEvents(ClusterEventsOptions options, std::unique_ptr<LineFile> file)
    : options_(std::move(options)), file_(std::move(file)) {}

ClusterEvents::~ClusterEvents() = default;

Result<std::unique_ptr<ClusterEvents>> ClusterEvents::Open(Loop& loop,
                                                           ClusterEventsOptions options) {
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<LineFile> file,
                          LineFile::Open(loop, {.option = options.option,
                                                .path = options.path,
                                                .on_damaged = options.on_damaged}));
  std::unique_ptr<ClusterEvents> events(new ClusterEvents(std::move(options), std::move(file)));
  const ClusterCall& call = events->options_.call;
  Json line;
  line["schema"] = kClusterEventsSchema;
  line.update(events->Line("cluster", call.began));
  line["command"] = call.command;
  line["name"] = call.name;
  line["file"] = call.file;
  line["build"] = call.build;
  line["nodes"] = Json::array();
  for (const NodeRow& node : events->options_.nodes) line["nodes"].push_back(NodeNameJson(node));
  events->Write(line);
  return events;
}

void ClusterEvents::Write(const Json& line) { file_->Write(DumpJson(line)); }

Json ClusterEvents::Line(std::string_view event, TimePoint now) const {
  return EventLine(event, options_.call.began, options_.call.began_wall, now);
}

Json ClusterEvents::NodeLine(std::string_view event, int node, TimePoint now) const {
  Json line = Line(event, now);
  line["node"] = options_.nodes[static_cast<size_t>(node)].address;
  return line;
}

void ClusterEvents::OnFact(const ClusterEvent& fact, TimePoint now) {
  if (const auto* in = std::get_if<cluster_event::LoggedIn>(&fact)) {
    Write(NodeLine("node_logged_in", in->node, now));
  } else if (const auto* answer = std::get_if<cluster_event::Answer>(&fact)) {
    Json line = Line("answered", now);
    line["yes"] = answer->is_yes;
    Write(line);
  }
}

void ClusterEvents::OnEffect(const ClusterEffect& effect, TimePoint now) {
  if (const auto* order = std::get_if<cluster_effect::LogIn>(&effect)) {
    Write(NodeLine("node_logging_in", order->node, now));
  } else if (std::holds_alternative<cluster_effect::Ask>(effect)) {
    Write(Line("asked", now));
  } else if (const auto* note = std::get_if<cluster_effect::Note>(&effect)) {
    Write(Described(note->what, now));
  }
}

Json ClusterEvents::PlanLine(const cluster_note::Planned& planned, TimePoint now) const {
  Json line = Line("plan", now);
  line["nodes"] = Json::array();
  for (const NodePlan& plan : planned.nodes) {
    Json row = NodeNameJson(options_.nodes[static_cast<size_t>(plan.node)]);
    row["need"] = plan.need;
    row["steps"] = plan.steps;
    row["starts_ray"] = plan.is_ray_started;
    row["processes"] = plan.processes;
    line["nodes"].push_back(std::move(row));
  }
  return line;
}

Json ClusterEvents::Described(const ClusterNote& note, TimePoint now) const {
  if (const auto* planned = std::get_if<cluster_note::Planned>(&note)) {
    return PlanLine(*planned, now);
  }
  if (const auto* waiting = std::get_if<cluster_note::Waiting>(&note)) {
    Json line = NodeLine("node_waiting", waiting->node, now);
    line["error"] = ErrorJson(waiting->why);
    line["left_s"] = RoundedSeconds(waiting->left);
    return line;
  }
  if (const auto* started = std::get_if<cluster_note::StepStarted>(&note)) {
    Json line = NodeLine("step_started", started->node, now);
    line["kind"] = KeyOf(Name(started->step.kind));
    line["number"] = started->step.number;
    line["count"] = started->step.count;
    line["hash"] = started->step.hash;
    return line;
  }
  if (const auto* done = std::get_if<cluster_note::StepDone>(&note)) {
    Json line = NodeLine("step_done", done->node, now);
    line.update(StepJson(done->outcome));
    return line;
  }
  if (const auto* stopped = std::get_if<cluster_note::RayStopped>(&note)) {
    Json line = NodeLine("ray_stopped", stopped->node, now);
    line["processes"] = stopped->processes;
    return line;
  }
  if (const auto* ray = std::get_if<cluster_note::RayStarted>(&note)) {
    return NodeLine("ray_started", ray->node, now);
  }
  if (const auto* up = std::get_if<cluster_note::NodeUp>(&note)) {
    return NodeLine(up->is_started ? "node_joined" : "node_kept", up->node, now);
  }
  if (const auto* ended = std::get_if<cluster_note::NodeEnded>(&note)) {
    return NodeLine("node_ended", ended->node, now);
  }
  const auto& failed = std::get<cluster_note::NodeFailed>(note);
  Json line = NodeLine("node_failed", failed.node, now);
  line["error"] = ErrorJson(failed.why);
  return line;
}

void ClusterEvents::OnSignal(int signo, TimePoint now) {
  Json line = Line("signal", now);
  line["signal"] = SignalName(signo);
  Write(line);
}

void ClusterEvents::OnEnd(int exit_code, const Status& error, TimePoint now) {
  Json line = Line("end", now);
  line["exit"]["code"] = exit_code;
  line["exit"]["error"] = ErrorJson(error);
  Write(line);
}

}  // namespace hvdray
