// SPDX-License-Identifier: Apache-2.0
// The words of the commands that look at a Ray cluster: `hvdray status`, `jobs`, `slots`, `follow`.
// Pure: what is read about them (ray_pages.h) is made of these declarations.
#ifndef HVDRAY_CMD_RAY_OPTIONS_H_
#define HVDRAY_CMD_RAY_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdray {

/// Which cluster, and how it is reached. Names and variables are those of `hvdray run`.
struct RayOptions {
  bool is_ray = false;
  std::string address;
  std::string address_origin = "flag --ray-address";
  std::string cluster;  ///< A cluster file whose Ray is meant, if no address is given.
  std::string verify;
  std::string headers;
  double timeout_s = 30;
  bool is_json = false;
};

struct SlotOptions {
  double cpus = 1;
  std::optional<double> gpus;
  bool uses_gpu = false;
  std::vector<std::string> resources;
  std::vector<std::string> labels;
};

struct FollowOptions {
  std::string id;
  bool is_stop = false;
  bool is_quiet = false;
  std::string report, events, junit, trace, record, output_directory;
};

/// Each names the command, says what it does, and declares its words.
void DeclareStatus(CLI::App& app, RayOptions& ray);
void DeclareJobs(CLI::App& app, RayOptions& ray);
void DeclareSlots(CLI::App& app, RayOptions& ray, SlotOptions& slots);
void DeclareFollow(CLI::App& app, RayOptions& ray, FollowOptions& follow);

// What people read about `hvdray follow`, `status`, `slots` and `rendezvous`, made of their
// declarations. Pure.

struct ManPage {
  std::string name;  ///< "hvdray-follow.1"
  std::string text;  ///< In man(7) macros.
};

/// The part of docs/cli.md about them.
std::string RayCommandsMarkdown();
std::vector<ManPage> RayManPages();

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_OPTIONS_H_
