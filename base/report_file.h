// SPDX-License-Identifier: Apache-2.0
// Files that a command writes at its end, such as --report FILE: whether that can work is checked
// before it does anything, and whatever stood there stays until all of the new text is on the disk.
#ifndef HVDRAY_BASE_REPORT_FILE_H_
#define HVDRAY_BASE_REPORT_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace hvdray {

/// Checks, before anything is started, that a file can be written at `path`; changes nothing. An
/// empty path (not asked for) is ok. `flag` names the option in the message. Errors:
/// kFileUnwritable.
Status CheckReportPath(const std::string& path, std::string_view flag);

/// Replaces `path` as WriteFileAtomically() does. `flag` names the option in the message. Blocks.
/// Errors: kOutputLost; kReaderGone if nobody reads what `path` names, such as /dev/stdout.
Status WriteReportFile(const std::string& path, std::string_view flag, std::string_view text);

/// Why a write to `where` ("stdout") has failed, from its errno: kReaderGone, or kOutputLost with a
/// hint. Pure.
Status OutputLost(std::string_view where, int error);

/// The file that a report at `path` would replace, without links: two options may not name the
/// same. Empty for what takes several writers (a terminal, /dev/null) and for an empty path.
std::string FileBehind(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_REPORT_FILE_H_
