// SPDX-License-Identifier: Apache-2.0
// The fields of a JobSpec with their names and options, for code that handles all of them. A field
// added to the struct alone does not compile. The names are part of the JSON of spec_json.h.
#ifndef HVDRAY_LAUNCHER_JOB_SPEC_FIELDS_H_
#define HVDRAY_LAUNCHER_JOB_SPEC_FIELDS_H_

#include "launcher/job/job_spec.h"
#include "launcher/job/option_table.h"

namespace hvdray {

/// Calls `visit(name, option, setting)` for each field of `ray` (a RaySpec, const or not).
template <typename Ray, typename Visitor>
void ForEachRayField(Ray& ray, Visitor&& visit) {
  auto& [is_wanted, backend, address, verify, headers, python, keeps_ray_env, is_detached,
         stops_with_client, log_limit, working_dir, excludes, runtime_env, num_hosts, num_slots,
         cpus_per_slot, gpus_per_slot, uses_gpu, slot_resources, label_selectors, strategy,
         group_timeout, gpu_choice] = ray;
  visit("ray.is_wanted", OptionId::kRay, is_wanted);
  visit("ray.address", OptionId::kRayAddress, address);
  visit("ray.verify", OptionId::kRayVerify, verify);
  visit("ray.headers", OptionId::kRayHeaders, headers);
  visit("ray.python", OptionId::kRayPython, python);
  visit("ray.keeps_ray_env", OptionId::kKeepRayEnv, keeps_ray_env);
  visit("ray.is_detached", OptionId::kDetach, is_detached);
  visit("ray.stops_with_client", OptionId::kStopWithClient, stops_with_client);
  visit("ray.log_limit", OptionId::kRayLogLimit, log_limit);
  visit("ray.working_dir", OptionId::kWorkingDir, working_dir);
  visit("ray.excludes", OptionId::kExclude, excludes);
  visit("ray.runtime_env", OptionId::kRuntimeEnv, runtime_env);
  visit("ray.num_hosts", OptionId::kNumHosts, num_hosts);
  visit("ray.num_slots", OptionId::kNumSlots, num_slots);
  visit("ray.cpus_per_slot", OptionId::kCpusPerSlot, cpus_per_slot);
  visit("ray.gpus_per_slot", OptionId::kGpusPerSlot, gpus_per_slot);
  visit("ray.uses_gpu", OptionId::kUseGpu, uses_gpu);
  visit("ray.slot_resources", OptionId::kResourcesPerSlot, slot_resources);
  visit("ray.label_selectors", OptionId::kLabelSelector, label_selectors);
  visit("ray.strategy", OptionId::kStrategy, strategy);
  visit("ray.group_timeout", OptionId::kPlacementGroupTimeout, group_timeout);
  visit("ray.gpu_choice", OptionId::kGpuVisibility, gpu_choice);
  visit("ray.backend", OptionId::kBackend, backend);
}

/// Calls `visit(name, option, setting)` for each field of `spec` (a JobSpec, const or not), in the
/// order of the option table. OptionId::kCount: no option of run sets the field. Also calls
/// `visit("tunables", OptionId::kCount, map)`, whose values are themselves settings.
template <typename Spec, typename Visitor>
void ForEachSpecField(Spec& spec, Visitor&& visit) {
  // clang-format off
  auto& [command, working_directory, sync, env, is_clean_env, keeps_rank_variables, is_torch_env,
         omp_threads, has_channel, preload, horovod, np, hosts, min_np, max_np, host_discovery_script, are_hosts_told, slots_per_host, hostfile,
         job_file,
         config_file, cluster_file, network_interfaces,
         start_timeout, elastic_timeout, grace, timeout, heartbeat_timeout, kv_hold,
         max_restarts, reset_limit, blacklist_cooldown_range,
         elastic_mode, join, success, discovery_interval, discovery_timeout, straggler_timeout,
         settle, breaks_connections,
         stdin_rank, tag_output, is_timestamped, output_directory, color, is_quiet, is_verbose,
         is_log_json, report_file, events_file, junit_file, trace_file, record_file,
         master_port, is_peer_checked, agent_path, ssh_port, ssh_identity_file, ssh_user,
         ssh_proxy_command, ssh_transport, ssh_config_file, host_key_check, ssh_connections,
         launch_agent, remote_directory, is_remote_forced,
         ray, is_dry_run, print_plan, print_config, tunables] = spec;
  // clang-format on
  visit("command", OptionId::kCount, command);
  visit("job_file", OptionId::kJobFile, job_file);
  visit("env", OptionId::kEnv, env);
  visit("is_clean_env", OptionId::kCleanEnv, is_clean_env);
  visit("keeps_rank_variables", OptionId::kKeepRankVariables, keeps_rank_variables);
  visit("working_folder", OptionId::kCwd, working_directory);
  visit("sync", OptionId::kSync, sync);
  visit("is_torch_env", OptionId::kTorchEnv, is_torch_env);
  visit("omp_threads", OptionId::kOmpThreads, omp_threads);
  visit("has_channel", OptionId::kChannel, has_channel);
  visit("preload", OptionId::kPreload, preload);
  visit("horovod", OptionId::kHorovod, horovod);
  visit("np", OptionId::kNumProc, np);
  visit("hosts", OptionId::kHosts, hosts);
  visit("hostfile", OptionId::kHostfile, hostfile);
  visit("cluster_file", OptionId::kCluster, cluster_file);
  visit("slots_per_host", OptionId::kSlotsPerHost, slots_per_host);
  visit("host_discovery_script", OptionId::kHostDiscoveryScript, host_discovery_script);
  visit("are_hosts_told", OptionId::kCount, are_hosts_told);
  visit("min_np", OptionId::kMinNp, min_np);
  visit("max_np", OptionId::kMaxNp, max_np);
  visit("elastic_timeout", OptionId::kElasticTimeout, elastic_timeout);
  visit("reset_limit", OptionId::kResetLimit, reset_limit);
  visit("blacklist_cooldown_range", OptionId::kBlacklistCooldownRange, blacklist_cooldown_range);
  visit("elastic_mode", OptionId::kElasticMode, elastic_mode);
  visit("join", OptionId::kJoin, join);
  visit("success", OptionId::kSuccess, success);
  visit("discovery_interval", OptionId::kDiscoveryInterval, discovery_interval);
  visit("discovery_timeout", OptionId::kDiscoveryTimeout, discovery_timeout);
  visit("straggler_timeout", OptionId::kStragglerTimeout, straggler_timeout);
  visit("settle", OptionId::kSettle, settle);
  visit("breaks_connections", OptionId::kBreakConnections, breaks_connections);
  visit("max_restarts", OptionId::kMaxRestarts, max_restarts);
  visit("grace", OptionId::kGrace, grace);
  visit("timeout", OptionId::kTimeout, timeout);
  visit("start_timeout", OptionId::kStartTimeout, start_timeout);
  visit("heartbeat_timeout", OptionId::kHeartbeatTimeout, heartbeat_timeout);
  visit("output_folder", OptionId::kOutputFilename, output_directory);
  visit("is_timestamped", OptionId::kPrefixTimestamp, is_timestamped);
  visit("tag_output", OptionId::kTagOutput, tag_output);
  visit("stdin_rank", OptionId::kStdin, stdin_rank);
  visit("color", OptionId::kColor, color);
  visit("is_quiet", OptionId::kQuiet, is_quiet);
  visit("is_verbose", OptionId::kVerbose, is_verbose);
  visit("is_log_json", OptionId::kLogJson, is_log_json);
  visit("is_dry_run", OptionId::kDryRun, is_dry_run);
  visit("print_plan", OptionId::kPrintPlan, print_plan);
  visit("print_config", OptionId::kPrintConfig, print_config);
  visit("report_file", OptionId::kReport, report_file);
  visit("events_file", OptionId::kEvents, events_file);
  visit("junit_file", OptionId::kJunit, junit_file);
  visit("trace_file", OptionId::kTrace, trace_file);
  visit("record_file", OptionId::kRecord, record_file);
  visit("network_interfaces", OptionId::kNetworkInterfaces, network_interfaces);
  visit("master_port", OptionId::kMasterPort, master_port);
  visit("is_peer_checked", OptionId::kPeerCheck, is_peer_checked);
  visit("kv_hold", OptionId::kKvHold, kv_hold);
  visit("agent_path", OptionId::kAgentPath, agent_path);
  visit("ssh_port", OptionId::kSshPort, ssh_port);
  visit("ssh_identity_file", OptionId::kSshIdentityFile, ssh_identity_file);
  visit("ssh_user", OptionId::kCount, ssh_user);
  visit("ssh_proxy_command", OptionId::kCount, ssh_proxy_command);
  visit("ssh_transport", OptionId::kSshTransport, ssh_transport);
  visit("ssh_config_file", OptionId::kSshConfig, ssh_config_file);
  visit("host_key_check", OptionId::kStrictHostKeyChecking, host_key_check);
  visit("ssh_connections", OptionId::kSshConnections, ssh_connections);
  visit("launch_agent", OptionId::kLaunchAgent, launch_agent);
  visit("remote_folder", OptionId::kRemoteDir, remote_directory);
  visit("is_remote_forced", OptionId::kForceRemote, is_remote_forced);
  ForEachRayField(ray, visit);
  visit("config_file", OptionId::kConfigFile, config_file);
  visit("tunables", OptionId::kCount, tunables);
}

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SPEC_FIELDS_H_
