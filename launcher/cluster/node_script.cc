// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/node_script.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace hvdray {
namespace {

// POSIX sh, besides bash for the user's commands, GNU or busybox grep, and /proc. Answers begin
// with "@", because a start-up file of the shell may print, too.
constexpr std::string_view kScript = R"sh(
cluster=$1 node=$2 head=$3 shell=$4 verb=$5
shift 5
cd "$HOME" || exit 1
top=$HOME/.hvdray/clusters/$cluster
dir=$top/$node
mark=HVDRAY_NODE=$cluster/$node
unset HVDRAY_NODE
if [ -n "$head" ]; then
  RAY_HEAD_IP=$head
  export RAY_HEAD_IP
fi

fail() {
  echo "$*" >&2
  exit 1
}

user_line() {
  if [ "$shell" = login ]; then
    # As `ray up` runs it, so that what ~/.bashrc sets counts.
    bash --login -c -i "[ ! -f ~/.bashrc ] || . ~/.bashrc
($1
)" 9>&-
  else
    bash -c "$1" 9>&-
  fi
}

# One hvdray at a time: what a killed one left running ends within seconds.
lock() {
  mkdir -p "$dir" || fail "no place for the record of this cluster"
  command -v flock >/dev/null || return 0
  exec 9>"$dir/lock"
  flock -w 10 9 || fail "another hvdray is at work on this node ($dir/lock)"
}

cut_record() {
  touch "$dir/steps" && head -n "$1" "$dir/steps" >"$dir/steps.new" &&
    mv "$dir/steps.new" "$dir/steps" || fail "cannot write $dir/steps"
}

append_record() {
  printf '%s\n' "$1" >>"$dir/steps" || fail "cannot write $dir/steps"
}

run_step() {
  lock
  cut_record "$1"
  user_line "$3" || exit
  append_record "$2"
}

# The processes of this node's Ray: those with our mark, and what descends from them, because some
# overwrite their environment.
ours() {
  marked=$(grep -lazxF -e "$mark" /proc/[0-9]*/environ 2>/dev/null | tr -cd '0-9\n')
  [ -n "$marked" ] || return 0
  {
    echo $marked
    cat /proc/[0-9]*/stat 2>/dev/null |
      sed -n 's/^\([0-9]*\) (.*) \([A-Za-z]\) \([0-9]*\) .*/\1 \2 \3/p'
  } | awk 'NR == 1 { for (i = 1; i <= NF; i++) is[$i] = 1; next }
    { parent[$1] = $3; if ($2 != "Z" && $2 != "X") alive[$1] = 1 }
    END {
      do {
        more = 0
        for (p in parent) if (!(p in is) && (parent[p] in is)) { is[p] = 1; more = 1 }
      } while (more)
      for (p in is) if (p in alive) print p
    }'
}

# The files /proc/PID/cmdline of those of the processes $2 with an argument that matches $1.
running() {
  files=
  for p in $2; do files="$files /proc/$p/cmdline"; done
  [ -n "$files" ] || return 0
  grep -lazx -e "$1" $files 2>/dev/null
}

raylet_of() { running '[^ ]*/raylet/raylet' "$1"; }

signal_all() {
  for p in $2; do kill "-$1" "$p" 2>/dev/null; done
}

# Waits until none of ours is left, at most $1 tenths of a second. Leaves them in $left.
wait_gone() {
  tenths=$1
  left=$(ours)
  while [ -n "$left" ] && [ "$tenths" -gt 0 ]; do
    sleep 0.1
    tenths=$((tenths - 1))
    left=$(ours)
  done
}

case $verb in
survey)
  [ ! -f "$dir/steps" ] || sed 's/^/@step /' "$dir/steps"
  pids=$(ours)
  echo "@processes $(echo $pids | wc -w)"
  [ ! -f "$dir/head" ] || echo "@head $(cat "$dir/head")"
  [ -z "$(running '[^ ]*/gcs/gcs_server' "$pids")" ] || echo "@gcs"
  for file in $(raylet_of "$pids"); do
    tr '\0' '\n' <"$file" 2>/dev/null |
      sed -n 's/^--node_id=/@node /p; s/^--node_ip_address=/@address /p'
  done
  ;;
step) run_step "$@" ;;
mark)
  lock
  cut_record "$1"
  [ -z "$2" ] || append_record "$2"
  ;;
start)
  RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$top/token
  export RAY_AUTH_MODE RAY_AUTH_TOKEN_PATH
  export "$mark"
  if [ -n "$head" ]; then
    printf '%s\n' "$head" >"$dir/head" || fail "cannot write $dir/head"
  else
    rm -f "$dir/head"
    export RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED:-0}"
  fi
  index=$1 hash=$2 line=$3
  shift 3
  for setting; do export "$setting"; done
  run_step "$index" "$hash" "$line"
  ;;
token)
  umask 077
  mkdir -p "$dir" ~/.ray || exit 1
  IFS= read -r token
  if [ "$1" = keep ] && [ -s "$top/token" ]; then
    token=$(cat "$top/token")
  elif [ "$1" = keep ] && [ -s ~/.ray/auth_token ]; then
    token=$(cat ~/.ray/auth_token) # the user's own, which Ray's commands there use
    printf %s "$token" >"$dir/token.new" && mv "$dir/token.new" "$top/token" ||
      fail "cannot write $top/token"
  else
    printf %s "$token" >"$dir/token.new" && mv "$dir/token.new" "$top/token" ||
      fail "cannot write $top/token"
  fi
  # Where Ray's own commands look for it.
  [ -e ~/.ray/auth_token ] || printf %s "$token" >~/.ray/auth_token
  printf '@token %s\n' "$token"
  ;;
versions)
  user_line '
    ray=$(command -v ray) || { echo "@ray"; exit 0; }
    python=$(sed -n "1s/^#! *//p" "$ray" 2>/dev/null)
    case $python in *python*) ;; *) python=python3 ;; esac
    $python -c "
import importlib.metadata, platform
print(\"@ray\", importlib.metadata.version(\"ray\"))
print(\"@python\", platform.python_version())"'
  ;;
stop)
  lock
  pids=$(ours)
  count=$(echo $pids | wc -w)
  if [ "$count" -gt 0 ]; then
    # The raylet first: it ends its workers and signs off.
    for file in $(raylet_of "$pids"); do signal_all TERM "$(echo "$file" | tr -cd 0-9)"; done
    tenths=30
    while [ -n "$(raylet_of "$(ours)")" ] && [ "$tenths" -gt 0 ]; do
      sleep 0.1
      tenths=$((tenths - 1))
    done
    signal_all TERM "$(ours)"
    wait_gone 20
    tries=5
    while [ -n "$left" ] && [ "$tries" -gt 0 ]; do
      signal_all KILL "$left"
      wait_gone 10
      tries=$((tries - 1))
    done
  else
    left=
  fi
  rm -f "$dir/head"
  echo "@stopped $count $(echo $left | wc -w)"
  ;;
nodes)
  files=$(running '.*/dashboard/dashboard\.py' "$(ours)")
  [ -n "$files" ] || { echo "@problem no dashboard runs on the head"; exit 0; }
  for file in $files; do
    python=$(tr '\0' '\n' <"$file" | sed -n 1p)
    port=$(tr '\0' '\n' <"$file" | sed -n 's/^--port=//p')
    "$python" -I -c '
import http.client, json, sys
why = "it does not answer"
token = open(sys.argv[1]).read().strip()
for port in range(int(sys.argv[2]), int(sys.argv[2]) + 5):
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        link.request("GET", "/api/v0/nodes?limit=10000", headers={"Authorization": "Bearer " + token})
        answer = link.getresponse()
        body = answer.read()
        if answer.status != 200:
            why = "it answers %d" % answer.status
            continue
        print("@dashboard", port)
        for node in json.loads(body)["data"]["result"]["result"]:
            if node["state"] == "ALIVE":
                print("@alive", node["node_id"], node["node_ip"])
        sys.exit()
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
print("@problem the dashboard:", " ".join(why.split()))
' "$top/token" "$port"
    exit 0
  done
  ;;
*) fail "no verb $verb" ;;
esac
)sh";

/// Calls `each(key, value)` for the lines of an answer.
template <typename Each>
void ForEachAnswer(std::string_view output, Each each) {
  while (!output.empty()) {
    const size_t end = std::min(output.find('\n'), output.size());
    std::string_view line = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with('@')) continue;
    line.remove_prefix(1);
    const size_t blank = std::min(line.find(' '), line.size());
    each(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
  }
}

}  // namespace

std::vector<std::string> ScriptCommand(const ScriptPlace& place, std::string_view verb,
                                       const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"/bin/sh",
                                    "-c",
                                    std::string(kScript),
                                    "hvdray",
                                    place.cluster,
                                    place.node,
                                    place.head,
                                    place.shell == CommandShell::kLogin ? "login" : "plain",
                                    std::string(verb)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

NodeSurvey ParseSurvey(std::string_view output) {
  NodeSurvey survey;
  ForEachAnswer(output, [&survey](std::string_view key, std::string_view value) {
    if (key == "step") survey.record.emplace_back(value);
    if (key == "processes") survey.processes = ParseInteger<int>(value).value_or(0);
    if (key == "gcs") survey.has_gcs = true;
    if (key == "node") survey.ray_node = value;
    if (key == "address") survey.address = value;
    if (key == "head") survey.joined_head = value;
  });
  return survey;
}

std::optional<RayVersions> ParseVersions(std::string_view output) {
  RayVersions versions;
  bool has_ray = false;
  ForEachAnswer(output, [&](std::string_view key, std::string_view value) {
    if (key == "ray") {
      versions.ray = value;
      has_ray = true;
    }
    if (key == "python") versions.python = value;
  });
  const bool is_whole = has_ray && (versions.ray.empty() || !versions.python.empty());
  return is_whole ? std::optional(std::move(versions)) : std::nullopt;
}

std::string ParseToken(std::string_view output) {
  std::string token;
  ForEachAnswer(output, [&token](std::string_view key, std::string_view value) {
    if (key == "token") token = value;
  });
  return token;
}

std::optional<StopCount> ParseStopped(std::string_view output) {
  std::optional<StopCount> count;
  ForEachAnswer(output, [&count](std::string_view key, std::string_view value) {
    const size_t blank = std::min(value.find(' '), value.size());
    const auto found = ParseInteger<int>(value.substr(0, blank));
    const auto left = ParseInteger<int>(value.substr(std::min(blank + 1, value.size())));
    if (key == "stopped" && found && left) count = StopCount{*found, *left};
  });
  return count;
}

JoinedNodes ParseJoinedNodes(std::string_view output) {
  JoinedNodes nodes;
  bool is_answered = false;
  ForEachAnswer(output, [&](std::string_view key, std::string_view value) {
    if (key == "dashboard") is_answered = true;
    if (key == "problem") nodes.problem = value;
    if (key != "alive") return;
    const size_t blank = std::min(value.find(' '), value.size());
    nodes.alive.emplace(value.substr(0, blank), value.substr(std::min(blank + 1, value.size())));
  });
  if (!is_answered && nodes.problem.empty()) nodes.problem = "the dashboard gave no answer";
  return nodes;
}

bool IsPlainClusterName(std::string_view name) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 100 && std::isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_plain);
}

}  // namespace hvdray
