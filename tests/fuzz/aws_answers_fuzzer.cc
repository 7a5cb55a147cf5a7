// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/cloud/aws_answers.h"
#include "cluster/cloud/aws_credentials.h"
#include "cluster/cloud/aws_plan.h"

namespace {

void Require(bool is_true) {
  if (!is_true) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const hvdray::AwsError error = hvdray::ParseAwsError(body);
  Require(error.code.find_first_of("\x1b\n") == std::string::npos);
  Require(error.message.find_first_of("\x1b\n") == std::string::npos);
  (void)hvdray::ParseServedCredentials(body, "x").ok();
  const auto root = hvdray::ParseXml(body);
  if (!root.ok()) return 0;
  for (const hvdray::AwsInstance& instance : hvdray::InstancesIn(*root)) {
    Require(!instance.id.empty());
    const auto node = hvdray::ToCloudNode(instance);
    Require(!node || node->id == instance.id);
  }
  (void)hvdray::SubnetsIn(*root).size();
  (void)hvdray::SecurityGroupsIn(*root).size();
  (void)hvdray::KeyPairsIn(*root).size();
  (void)hvdray::InstanceTypesIn(*root).size();
  (void)hvdray::InstanceProfileIn(*root).roles.size();
  return 0;
}
