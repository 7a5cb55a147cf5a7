// The fields of a JobSpec by name, for whatever has to treat all of them. A field that is added to
// the struct and not here does not compile.
#ifndef HVDRAY_LAUNCHER_JOB_SPEC_FIELDS_H_
#define HVDRAY_LAUNCHER_JOB_SPEC_FIELDS_H_

#include "launcher/job/job_spec.h"

namespace hvdray {

/// Calls `visit(name, setting)` for each field of `ray` (a RaySpec, const or not).
template <typename Ray, typename Visitor>
void ForEachRayField(Ray& ray, Visitor&& visit) {
  auto& [is_wanted, backend, address, verify, headers, python, keeps_ray_env, is_detached,
         stops_with_client, log_limit, working_dir, excludes, runtime_env, num_hosts, num_slots,
         cpus_per_slot, gpus_per_slot, uses_gpu, slot_resources, label_selectors, strategy,
         group_timeout, gpu_choice] = ray;
  visit("ray.is_wanted", is_wanted);
  visit("ray.backend", backend);
  visit("ray.address", address);
  visit("ray.verify", verify);
  visit("ray.headers", headers);
  visit("ray.python", python);
  visit("ray.keeps_ray_env", keeps_ray_env);
  visit("ray.is_detached", is_detached);
  visit("ray.stops_with_client", stops_with_client);
  visit("ray.log_limit", log_limit);
  visit("ray.working_dir", working_dir);
  visit("ray.excludes", excludes);
  visit("ray.runtime_env", runtime_env);
  visit("ray.num_hosts", num_hosts);
  visit("ray.num_slots", num_slots);
  visit("ray.cpus_per_slot", cpus_per_slot);
  visit("ray.gpus_per_slot", gpus_per_slot);
  visit("ray.uses_gpu", uses_gpu);
  visit("ray.slot_resources", slot_resources);
  visit("ray.label_selectors", label_selectors);
  visit("ray.strategy", strategy);
  visit("ray.group_timeout", group_timeout);
  visit("ray.gpu_choice", gpu_choice);
}

/// Calls `visit(name, setting)` for each field of `spec` (a JobSpec, const or not), those of its
/// RaySpec last; `visit("tunables", map)` too, whose values are settings themselves.
// clang-format off
template <typename Spec, typename Visitor>
void ForEachSpecField(Spec& spec, Visitor&& visit) {
  auto& [command, working_folder, sync, env, is_clean_env, is_torch_env,
         np, hosts, min_np, max_np, host_discovery_script, slots_per_host, hostfile, job_file,
         config_file, cluster_file, network_interfaces,
         start_timeout, elastic_timeout, grace, timeout, heartbeat_timeout, kv_hold,
         max_restarts, reset_limit, blacklist_cooldown_range,
         elastic_mode, join, success, discovery_interval, discovery_timeout, straggler_timeout,
         breaks_connections,
         stdin_rank, tag_output, is_timestamped, output_folder, color, is_quiet, is_verbose,
         is_log_json, report_file, events_file, junit_file, trace_file, record_file,
         master_port, is_peer_checked, agent_path, ssh_port, ssh_identity_file, ssh_user,
         ssh_proxy_command, ssh_transport, ssh_config_file, host_key_check, ssh_connections,
         launch_agent, remote_folder, is_remote_forced,
         ray, is_dry_run, print_plan, print_config, tunables] = spec;
#define HVDRAY_VISIT_(field) visit(#field, field)
  HVDRAY_VISIT_(command); HVDRAY_VISIT_(working_folder); HVDRAY_VISIT_(sync);
  HVDRAY_VISIT_(env); HVDRAY_VISIT_(is_clean_env); HVDRAY_VISIT_(is_torch_env);
  HVDRAY_VISIT_(np); HVDRAY_VISIT_(hosts); HVDRAY_VISIT_(min_np); HVDRAY_VISIT_(max_np);
  HVDRAY_VISIT_(host_discovery_script); HVDRAY_VISIT_(slots_per_host); HVDRAY_VISIT_(hostfile);
  HVDRAY_VISIT_(job_file); HVDRAY_VISIT_(config_file); HVDRAY_VISIT_(cluster_file);
  HVDRAY_VISIT_(network_interfaces);
  HVDRAY_VISIT_(start_timeout); HVDRAY_VISIT_(elastic_timeout); HVDRAY_VISIT_(grace);
  HVDRAY_VISIT_(timeout); HVDRAY_VISIT_(heartbeat_timeout); HVDRAY_VISIT_(kv_hold);
  HVDRAY_VISIT_(max_restarts); HVDRAY_VISIT_(reset_limit); HVDRAY_VISIT_(blacklist_cooldown_range);
  HVDRAY_VISIT_(elastic_mode); HVDRAY_VISIT_(join); HVDRAY_VISIT_(success);
  HVDRAY_VISIT_(discovery_interval); HVDRAY_VISIT_(discovery_timeout);
  HVDRAY_VISIT_(straggler_timeout); HVDRAY_VISIT_(breaks_connections);
  HVDRAY_VISIT_(stdin_rank); HVDRAY_VISIT_(tag_output); HVDRAY_VISIT_(is_timestamped);
  HVDRAY_VISIT_(output_folder); HVDRAY_VISIT_(color); HVDRAY_VISIT_(is_quiet);
  HVDRAY_VISIT_(is_verbose); HVDRAY_VISIT_(is_log_json); HVDRAY_VISIT_(report_file);
  HVDRAY_VISIT_(events_file); HVDRAY_VISIT_(junit_file); HVDRAY_VISIT_(trace_file);
  HVDRAY_VISIT_(record_file);
  HVDRAY_VISIT_(master_port); HVDRAY_VISIT_(is_peer_checked); HVDRAY_VISIT_(agent_path);
  HVDRAY_VISIT_(ssh_port); HVDRAY_VISIT_(ssh_identity_file); HVDRAY_VISIT_(ssh_user);
  HVDRAY_VISIT_(ssh_proxy_command); HVDRAY_VISIT_(ssh_transport); HVDRAY_VISIT_(ssh_config_file);
  HVDRAY_VISIT_(host_key_check); HVDRAY_VISIT_(ssh_connections); HVDRAY_VISIT_(launch_agent);
  HVDRAY_VISIT_(remote_folder); HVDRAY_VISIT_(is_remote_forced);
  HVDRAY_VISIT_(is_dry_run); HVDRAY_VISIT_(print_plan); HVDRAY_VISIT_(print_config);
  HVDRAY_VISIT_(tunables);
#undef HVDRAY_VISIT_
  ForEachRayField(ray, visit);
}
// clang-format on

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SPEC_FIELDS_H_
