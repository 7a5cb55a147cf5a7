// Many host names from one short text: node[01-32]. Pure. The way back is CompressHostList()
// (launcher/driver/host_list.h).
#ifndef HVDRAY_LAUNCHER_JOB_HOST_RANGE_H_
#define HVDRAY_LAUNCHER_JOB_HOST_RANGE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

/// Hosts of one list at most, however they are written; a slip in a range must not eat the memory.
inline constexpr size_t kMaxHosts = 100'000;

/// What is wrong with a text about hosts, and where in it.
struct HostFault {
  size_t offset = 0;    ///< Bytes from the start of the text.
  std::string message;  ///< One line.
};

/// ASCII letters, digits, '.', '_', '-' in the length of a DNS name; no leading '-', which would
/// reach ssh as an option.
bool IsHostName(std::string_view name);

/// Appends the names of `pattern` to `names`: a name in which each bracket stands for the numbers
/// and ranges in it, the last bracket running fastest. "n[1,3]x[08-10]" is n1x08 n1x09 n1x10 n3x08
/// and so on. Leading zeros of a range's first number are its width. Returns what is wrong, or
/// nullopt; then `names` is as before: no host name, a reversed range, ends that are padded
/// differently, more than `room` names. A name may come twice ("n[1,1]").
/// Source of the form: Slurm's host lists.
std::optional<HostFault> ExpandHostRange(std::string_view pattern, size_t room,
                                         std::vector<std::string>* names);

/// Pieces of `list` between commas that are outside brackets; one empty piece for an empty list.
/// They are views into it.
std::vector<std::string_view> SplitHostItems(std::string_view list);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_HOST_RANGE_H_
