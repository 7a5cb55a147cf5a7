// SPDX-License-Identifier: Apache-2.0
#include "cmd/ray_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cmd/cli_values.h"
#include "cmd/rendezvous_options.h"

namespace hvdray {
namespace {

constexpr double kMaxTimeoutSeconds = 3600;

enum class RayOptionSet : uint8_t {
  kAll,     ///< --ray, --ray-address, --ray-verify, --ray-headers, --timeout, --json.
  kAccess,  ///< Without --ray and --json: of commands that only Ray has a meaning for.
};

void DeclareRay(CLI::App& app, RayOptions& words, RayOptionSet set) {
  if (set == RayOptionSet::kAll) app.add_flag("--ray", words.is_ray, "look at a Ray cluster");
  app.add_option("--ray-address", words.address,
                 "its dashboard, as in http://10.0.0.10:8265; implies --ray; else "
                 "RAY_API_SERVER_ADDRESS, RAY_ADDRESS if it is http(s), http://127.0.0.1:8265")
      ->type_name("URL");
  app.add_option("--cluster", words.cluster,
                 "a cluster file: the Ray on its head, through SSH where that is needed")
      ->type_name("FILE");
  app.add_option("--ray-verify", words.verify,
                 "of https: whether the certificate is checked, or the file or directory of those "
                 "that are believed")
      ->envname("HVDRAY_RAY_VERIFY")
      ->type_name("true|false|PATH");
  app.add_option("--ray-headers", words.headers,
                 "JSON object of headers for a proxy before the dashboard; else RAY_JOB_HEADERS")
      ->envname("HVDRAY_RAY_HEADERS")
      ->type_name("JSON");
  app.add_option("--timeout", words.timeout_s, "the longest that one answer may take")
      ->transform(DurationValue())
      ->check(Within(0.001, kMaxTimeoutSeconds))
      ->default_str("30s")
      ->type_name("DURATION");
  if (set != RayOptionSet::kAll) return;
  app.add_flag("--json", words.is_json, "print one JSON object (docs/ray.md) instead of text");
}

struct Example {
  std::string_view command;
  std::string_view text;
};

struct Page {
  std::string_view name;
  std::string_view summary;
  std::string_view arguments;
  std::string_view more;  ///< Behind what the declaration says of the command.
  std::array<Example, 3> examples;
  std::string_view exit_codes;
  std::string_view see = "On Ray: [ray](ray.md).";
};

constexpr std::string_view kExitsOfLook =
    "0 it was said; 2 wrong usage, no cluster there, or one that lets nobody in; 125 the cluster "
    "answered with an error.";

constexpr Page kFollow = {
    "follow",
    "follow a job on Ray that was submitted before, or stop it",
    "[OPTION...] ID",
    "From the first line of its output. Ctrl-C leaves the job alone; with --stop, it ends it at "
    "once.",
    {{{"hvdray follow \"$id\" --ray-address http://10.0.0.10:8265", "its output, its exit code"},
      {"hvdray follow \"$id\" --report r.json --output-filename out", "and its files"},
      {"hvdray follow \"$id\" --stop", "stop it in good order"}}},
    "those of the job, as hvdray run has them; 2 wrong usage, or no such job; 125 it cannot be "
    "followed any more; 129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM, while the job goes on."};
constexpr Page kStatus = {
    "status",
    "what a Ray cluster has, and what of it is in use",
    "[OPTION...]",
    "Changes nothing.",
    {{{"hvdray status --ray", "of RAY_API_SERVER_ADDRESS, RAY_ADDRESS, or this machine"},
      {"hvdray status --cluster ray_cluster.yaml", "of the Ray on the file's head"},
      {"hvdray status --ray --json", "for a program to read"}}},
    kExitsOfLook};
constexpr Page kJobs = {"jobs",
                        "the jobs of hvdray on a Ray cluster, and how they are",
                        "[OPTION...]",
                        "As long as Ray remembers them. Jobs of others are not shown.",
                        {{{"hvdray jobs --ray", "what runs, waits, and has ended"},
                          {"hvdray jobs --ray-address http://10.0.0.10:8265", "of this cluster"},
                          {"hvdray jobs --ray --json", "for a program to read"}}},
                        kExitsOfLook};
constexpr Page kSlots = {
    "slots",
    "how many slots a job could get from a Ray cluster now",
    "[OPTION...]",
    "What is free counts, not what is there. Reserves nothing.",
    {{{"hvdray slots --ray", "slots of one CPU"},
      {"hvdray slots --ray --cpus-per-slot 4 --use-gpu", "slots of four CPUs and a GPU"},
      {"hvdray slots --ray --json", "for a program to read"}}},
    kExitsOfLook};

constexpr Page kRendezvous = {
    "rendezvous",
    "serve Horovod's rendezvous for workers started otherwise",
    "[OPTION...]",
    "Prints ADDRESS and PORT on the first line of stdout, then the variables that a worker needs "
    "besides its HOROVOD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK and _CROSS_SIZE. "
    "Serves until SIGINT, SIGTERM or SIGHUP.",
    {{{"hvdray rendezvous", "for workers on this machine, at a free port"},
      {"hvdray rendezvous --host 10.1.0.4 --allow 10.1.0.0/16", "for those of other hosts"},
      {"hvdray rendezvous --port 7000 --kv-hold 5s", "at a port of one's own"}}},
    "129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM; 2 wrong usage; 125 it cannot listen; 141 "
    "nobody reads its stdout.",
    "The protocol: [rendezvous](rendezvous.md)."};

/// Calls `use` with each page and its declaration.
template <typename Use>
void ForEachPage(const Use& use) {
  RayOptions ray;
  SlotOptions slots;
  FollowOptions follow;
  CLI::App of_follow;
  DeclareFollow(of_follow, ray, follow);
  use(kFollow, of_follow);
  CLI::App of_status;
  DeclareStatus(of_status, ray);
  use(kStatus, of_status);
  CLI::App of_jobs;
  DeclareJobs(of_jobs, ray);
  use(kJobs, of_jobs);
  CLI::App of_slots;
  DeclareSlots(of_slots, ray, slots);
  use(kSlots, of_slots);
  RendezvousWords rendezvous;
  CLI::App of_rendezvous;
  DeclareRendezvous(of_rendezvous, rendezvous);
  use(kRendezvous, of_rendezvous);
}

/// "-q, --quiet" or "--report FILE"; each between `mark`s.
std::string Spelled(const CLI::Option& option, std::string_view mark) {
  std::string text;
  const auto add = [&](const std::string& name) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", mark, name, mark);
  };
  if (option.get_positional()) add(option.get_name(true));
  for (const std::string& name : option.get_snames()) add("-" + name);
  // Validators stand behind the ':'.
  std::string value = option.get_type_name();
  value.resize(std::min(value.find(':'), value.size()));
  const bool has_value = option.get_items_expected_max() > 0 && !value.empty();
  for (const std::string& name : option.get_lnames()) {
    add(has_value ? fmt::format("--{} {}", name, value) : "--" + name);
  }
  return text;
}

std::string Meaning(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) {
    text += fmt::format(" (default {})", option.get_default_str());
  }
  if (!option.get_envname().empty()) text += fmt::format("; {}", option.get_envname());
  return text;
}

std::string Wrapped(std::string_view text, size_t width) {
  std::string lines;
  size_t column = 0;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column > 0) lines += column + 1 + word.size() > width ? '\n' : ' ';
    column = !lines.empty() && lines.back() == '\n' ? 0 : column + (column > 0 ? 1 : 0);
    lines += word;
    column += word.size();
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return lines;
}

std::string InTable(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

/// "\\-" is a minus to roff.
std::string Minus(std::string_view text) {
  std::string roff;
  for (const char c : text) roff += c == '-' ? std::string("\\-") : std::string(1, c);
  return roff;
}

std::string Upper(std::string_view text) {
  std::string upper;
  for (const char c : text) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return upper;
}

std::string MarkdownOf(const Page& page, const CLI::App& app) {
  constexpr size_t kWidth = 118;
  std::string text = fmt::format(
      "\n# hvdray {}\n\n    hvdray {} {}\n\n{}\n\n", page.name, page.name, page.arguments,
      Wrapped(fmt::format("{} {} {}", app.get_description(), page.more, page.see), kWidth));
  for (const Example& example : page.examples) {
    text += fmt::format("    {:<58}# {}\n", example.command, example.text);
  }
  text += fmt::format("\n{}\n\n| option | meaning |\n|---|---|\n",
                      Wrapped(fmt::format("Exit codes: {}", page.exit_codes), kWidth));
  for (const CLI::Option* option : app.get_options()) {
    text += fmt::format("| {} | {} |\n", InTable(Spelled(*option, "`")), InTable(Meaning(*option)));
  }
  return text;
}

std::string ManOf(const Page& page, const CLI::App& app) {
  constexpr size_t kWidth = 90;
  std::string text = fmt::format(
      ".\\\" Generated from the command's declaration by hvdray-gen-cli; do not edit.\n"
      ".TH HVDRAY\\-{} 1\n.SH NAME\nhvdray\\-{} \\- {}\n.SH SYNOPSIS\n.B hvdray {}\n{}\n"
      ".SH DESCRIPTION\n{}\n.SH EXAMPLES\n",
      Upper(page.name), page.name, page.summary, page.name, page.arguments,
      Minus(Wrapped(app.get_description() + " " + std::string(page.more), kWidth)));
  for (const Example& example : page.examples) {
    text += fmt::format(".TP\n.B {}\n{}\n", Minus(example.command), Minus(example.text));
  }
  text += ".SH OPTIONS\n";
  for (const CLI::Option* option : app.get_options()) {
    text += fmt::format(".TP\n.B {}\n{}\n", Minus(Spelled(*option, "")), Minus(Meaning(*option)));
  }
  return text + fmt::format(".SH EXIT STATUS\n{}\n.SH SEE ALSO\nhvdray\\-run(1)\n",
                            Minus(Wrapped(page.exit_codes, kWidth)));
}

}  // namespace

void DeclareStatus(CLI::App& app, RayOptions& ray) {
  app.name("hvdray status");
  app.description("Says what a Ray cluster has, what of it is in use, and what waits for room.");
  DeclareRay(app, ray, RayOptionSet::kAll);
}

void DeclareJobs(CLI::App& app, RayOptions& ray) {
  app.name("hvdray jobs");
  app.description("Lists the jobs that hvdray has submitted to a Ray cluster, the newest first.");
  DeclareRay(app, ray, RayOptionSet::kAll);
}

void DeclareSlots(CLI::App& app, RayOptions& ray, SlotOptions& slots) {
  app.name("hvdray slots");
  app.description("Says how many slots a job could get from a Ray cluster now, node by node.");
  DeclareRay(app, ray, RayOptionSet::kAll);
  app.add_option("--cpus-per-slot", slots.cpus, "CPUs of one slot")
      ->envname("HVDRAY_CPUS_PER_SLOT")
      ->check(Within(0.0, 1e9))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--gpus-per-slot", slots.gpus,
                 "GPUs of one slot, a whole number; needs --use-gpu, which alone means 1")
      ->envname("HVDRAY_GPUS_PER_SLOT")
      ->check(Within(0.0, 1e9))
      ->type_name("N");
  app.add_flag("--use-gpu", slots.uses_gpu, "slots with a GPU")->envname("HVDRAY_USE_GPU");
  app.add_option(
         "--resources-per-slot", slots.resources,
         "another resource of one slot, as the cluster names it, or memory=1GiB; repeatable")
      ->envname("HVDRAY_RESOURCES_PER_SLOT")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=AMOUNT");
  app.add_option("--label-selector", slots.labels,
                 "only nodes with this label; VALUE may be !spot, in(a,b) or !in(a,b); repeatable")
      ->envname("HVDRAY_LABEL_SELECTOR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=VALUE");
  app.footer("  hvdray slots --ray-address http://10.0.0.10:8265 --cpus-per-slot 4 --use-gpu");
}

void DeclareFollow(CLI::App& app, RayOptions& ray, FollowOptions& follow) {
  app.name("hvdray follow");
  app.description("Follows a job on Ray that was submitted before: its output, its exit code.");
  DeclareRay(app, ray, RayOptionSet::kAccess);
  app.add_option("ID", follow.id, "the job, as hvdray run --detach has printed it")
      ->type_name("")
      ->required();
  app.add_flag("--stop", follow.is_stop, "stop the job in good order, and follow it to its end");
  app.add_flag("-q,--quiet", follow.is_quiet, "nothing from hvdray itself but errors");
  const auto file = [&app](const char* name, std::string& path, const char* what) {
    app.add_option(name, path, what)->type_name("FILE");
  };
  file("--report", follow.report, "write the job's report there when it has ended");
  file("--events", follow.events, "write its events there, if it was submitted with --events");
  file("--junit", follow.junit, "the same for --junit");
  file("--trace", follow.trace, "the same for --trace");
  file("--record", follow.record, "the same for --record");
  app.add_option("--output-filename", follow.output_directory,
                 "also write each worker's output to DIR/rank.N/stdout and stderr")
      ->type_name("DIR");
  app.footer(
      "Ctrl-C leaves the job alone; with --stop, it ends it at once.\n"
      "  hvdray follow hvd-20261122-101500-0a1b2c3d --ray-address http://10.0.0.10:8265");
}

std::string RayCommandsMarkdown() {
  std::string text;
  ForEachPage([&text](const Page& page, const CLI::App& app) { text += MarkdownOf(page, app); });
  return text;
}

std::vector<ManPage> RayManPages() {
  std::vector<ManPage> pages;
  ForEachPage([&pages](const Page& page, const CLI::App& app) {
    pages.push_back({fmt::format("hvdray-{}.1", page.name), ManOf(page, app)});
  });
  return pages;
}

}  // namespace hvdray
