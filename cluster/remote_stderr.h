// What hosts write to stderr on their way to us: the reason when an agent does not start, log lines
// for the person once it runs.
#ifndef HVDRAY_CLUSTER_REMOTE_STDERR_H_
#define HVDRAY_CLUSTER_REMOTE_STDERR_H_

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

/// Threads: the loop's.
class RemoteStderr {
 public:
  /// Takes the line in as ShownLine() has it: it is quoted in errors and logs.
  void OnLine(const std::string& host, std::string_view said);
  /// From now on its lines are shown as they come; before, only with --verbose.
  void MarkRunning(const std::string& host) { running_.insert(host); }
  /// The host is tried anew: what the last try wrote explains nothing any more.
  void Forget(const std::string& host) { lines_.erase(host); }
  /// The last few lines that came before that.
  std::vector<std::string> LinesOf(const std::string& host) const;

 private:
  std::map<std::string, std::deque<std::string>> lines_;
  std::set<std::string> running_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_REMOTE_STDERR_H_
