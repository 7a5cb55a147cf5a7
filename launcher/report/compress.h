// Many ranks as a few words, so that a thing is said once (style P13). Pure.
#ifndef HVDRAY_LAUNCHER_REPORT_COMPRESS_H_
#define HVDRAY_LAUNCHER_REPORT_COMPRESS_H_

#include <string>
#include <vector>

namespace hvdray {

/// "0-3,5"; any order, doubles count once. Two neighbours are "0,1".
std::string CompressRanks(std::vector<int> ranks);
/// "rank 5" or "ranks 0-3,5".
std::string RanksText(std::vector<int> ranks);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_COMPRESS_H_
