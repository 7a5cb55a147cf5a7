// SPDX-License-Identifier: Apache-2.0
// What hvdray tells its user, in one form wherever it is said: a line of text, or with --log-json
// an object like those of the log. Implemented by log.cc.
#ifndef HVDRAY_BASE_NOTICE_H_
#define HVDRAY_BASE_NOTICE_H_

#include <string>
#include <string_view>

#include "base/log.h"

namespace hvdray {

/// SetLogFormat(kJson) was called.
bool IsLogJson();

/// "hvdray run: text", after "warning: " at kWarning; or an object as LogMessage() writes it.
/// `who`: what speaks. The log's level does not count. No line end.
std::string NoticeLine(LogLevel level, std::string_view who, std::string_view text);

/// Writes it to stderr in one write(2).
void Tell(LogLevel level, std::string_view who, std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_BASE_NOTICE_H_
