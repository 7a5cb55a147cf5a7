// SPDX-License-Identifier: Apache-2.0
// Man pages of files, made from their JSON Schemas. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_FILE_PAGES_H_
#define HVDRAY_LAUNCHER_JOB_FILE_PAGES_H_

#include <string>
#include <string_view>

#include "base/json.h"

namespace hvdray {

/// hvdray-job(5). `release`: as for ManPage().
std::string JobFilePage(std::string_view release);

/// hvdray-cluster(5), of the schema of cluster files.
std::string ClusterFilePage(const Json& schema, std::string_view release);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_FILE_PAGES_H_
