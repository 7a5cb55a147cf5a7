// The words of `hvdray-agent --dial`, as an actor on a Ray node says them. Pure.
#ifndef HVDRAY_AGENT_DIAL_OPTIONS_H_
#define HVDRAY_AGENT_DIAL_OPTIONS_H_

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tcp_address.h"
#include "base/types.h"

namespace hvdray {

struct DialOptions {
  std::vector<TcpAddress> addresses;   ///< --dial
  int seat = -1;                       ///< --seat
  std::vector<std::string> gpus;       ///< --gpus: what CUDA_VISIBLE_DEVICES may name. Empty: none.
  std::string path_end;                ///< --path-end: a folder that every worker's PATH ends with.
  pid_t raylet = 0;                    ///< --raylet: its death ends the agent. 0: not watched.
  bool keeps_ray_environment = false;  ///< --keep-ray-env
  bool has_probe_listener = false;     ///< --probe-listener
  Duration limit = std::chrono::seconds(60);  ///< --dial-timeout
};

/// `words`: all behind the program's name, one of them --dial; `--name value` and `--name=value`.
/// Errors: kUsage.
Result<DialOptions> ParseDialOptions(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_DIAL_OPTIONS_H_
