// SPDX-License-Identifier: Apache-2.0
// Many ranks as a short text, so that one message covers them all. Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_COMPRESS_H_
#define HVDRAY_LAUNCHER_REPORT_COMPRESS_H_

#include <string>
#include <vector>

namespace hvdray {

/// "0-3,5"; in any order, duplicates count once. Two neighbours are "0,1".
std::string CompressRanks(std::vector<int> ranks);
/// "rank 5" or "ranks 0-3,5".
std::string RanksText(std::vector<int> ranks);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_COMPRESS_H_
