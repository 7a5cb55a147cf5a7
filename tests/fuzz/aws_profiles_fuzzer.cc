// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "cluster/cloud/aws_credentials.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const hvdray::AwsFile file : {hvdray::AwsFile::kCredentials, hvdray::AwsFile::kConfig}) {
    const auto profiles = hvdray::ParseAwsProfiles(text, file, "f");
    if (!profiles.ok()) {
      // The message has a place, and nothing of what may be a secret.
      if (!profiles.status().message().starts_with("f:")) std::abort();
      continue;
    }
    hvdray::AwsAccountFacts facts;
    facts.credentials = *profiles;
    facts.config = *profiles;
    (void)hvdray::PlanAwsCredentials(facts, hvdray::Environment()).ok();
    const auto region = hvdray::ChooseAwsRegion("", facts, hvdray::Environment());
    if (region.ok() && region->find_first_of("/.@ ") != std::string::npos) std::abort();
    for (const auto& [name, keys] : *profiles) {
      for (const auto& [key, value] : keys) {
        if (hvdray::Trimmed(value) != value || hvdray::Lower(key) != key) std::abort();
      }
    }
  }
  return 0;
}
