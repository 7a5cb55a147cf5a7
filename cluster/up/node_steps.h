// SPDX-License-Identifier: Apache-2.0
// What `hvdray up` does to one node, as steps in order, and which of them are done. Pure.
// docs/cluster.md, "up", says what a user sees of it.
#ifndef HVDRAY_CLUSTER_UP_NODE_STEPS_H_
#define HVDRAY_CLUSTER_UP_NODE_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/file/cluster_spec.h"

namespace hvdray {

class Sha256Sum;

/// In the order in which a node goes through them.
enum class StepKind : uint8_t { kFiles, kInitialization, kContainer, kBootstrap, kSetup, kStart };

std::string_view Name(StepKind kind);

/// One step. Its hash covers its own content and the hash of the step before, so that the hashes
/// that a node has recorded tell how far it got with exactly these steps.
struct NodeStep {
  StepKind kind = StepKind::kSetup;
  std::string command;  ///< A shell line; of a copy and of kContainer: what is done, for people.
  std::string hash;     ///< 64 hex digits.
  int number = 1;       ///< Among the steps of its kind, from 1.
  int count = 1;        ///< How many there are of its kind.
  std::string config;   ///< Of kContainer: a hash of what the container is started with.
  /// For the verb in node_script.h: of kContainer what follows CONFIG, of kBootstrap its files.
  std::vector<std::string> arguments;
};

/// "setup 2/3: pip install torch", shortened for a line.
std::string StepText(const NodeStep& step);

/// Where the file mounts of a node with a container lie on its host, below the home directory. From
/// there they are mounted into the container. Not in /tmp as with Ray: that is cleared at boot.
std::string HostMounts(std::string_view cluster);
/// The place on the node of the mount `remote`, as a copy's target: absolute, or relative to the
/// home directory. With a container, that place below `host_mounts`.
std::string MountTarget(std::string_view remote, std::string_view host_mounts);

/// What the steps of a node depend on besides its setup.
struct StepFacts {
  std::string files_hash;      ///< HashFiles() the file mounts; ignored without any.
  std::string bootstrap_hash;  ///< The same of what the head's autoscaler gets; empty: nothing.
  std::string head;            ///< The address that workers join; empty for the head itself.
  std::vector<std::string> exports;  ///< NAME=VALUE for the start commands.
  std::string host_mounts;           ///< HostMounts() the cluster, where setup has a container.
};

/// All steps of a node. Leaves `ray stop` out of its commands: hvdray ends the Ray of this cluster
/// itself, not every Ray of the machine.
std::vector<NodeStep> StepsOf(const ClusterNodeSetup& setup, const StepFacts& facts);

/// How many of `steps` a node has done that recorded these hashes.
size_t CountDone(std::span<const NodeStep> steps, std::span<const std::string> record);
/// The kContainer step; nullptr: the commands run on the host itself.
const NodeStep* FindContainer(std::span<const NodeStep> steps);
/// Index of the first kStart step; steps.size() without one.
size_t FirstStart(std::span<const NodeStep> steps);

/// Adds a part after its length, so that different lists never hash alike.
void AddPart(Sha256Sum& sum, std::string_view part);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_NODE_STEPS_H_
