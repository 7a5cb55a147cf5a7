# SPDX-License-Identifier: Apache-2.0
# What node_script.h describes. POSIX sh, besides bash for the user's commands, GNU or busybox grep, and
# /proc. Answers begin with "@", because a start-up file of the shell may print, too.
#
# $engine and $box name the container that the node's commands run in; both empty: none. $script is
# this text: a call in the container runs it there, as on a host without containers.
# $dashboard_calls is dashboard_calls.py.
#
# shellcheck shell=sh disable=SC2154
# Lists of pids and /proc's files are split into words on purpose.
# shellcheck disable=SC2013,SC2046,SC2086,SC2116 disable=SC2088,SC2094
cluster=$1 node=$2 head=$3 shell=$4 engine=$5 box=$6 verb=$7
shift 7
cd "$HOME" || exit 1
top=$HOME/.hvdray/clusters/$cluster
dir=$top/$node
mark=HVDRAY_NODE=$cluster/$node
label=hvdray.node=$cluster/$node
box_id= is_new=
unset HVDRAY_NODE HVDRAY_STEP
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
  exec 9>"$dir/${1:-lock}"
  flock -w 10 9 || fail "another hvdray is already running on this node ($dir/${1:-lock})"
}

# Nothing of a process that has ended, even if its parent has not collected it.
began_at() { sed 's/.*) //; /^[ZX]/d' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# $who: the up that is at work here, unless it is ours. It is known by its agent, which has started
# this call.
look_at_work() {
  other= who=
  [ ! -f "$dir/at-work" ] || read -r other began who <"$dir/at-work"
  if [ -z "$other" ] || [ "$other" = "$PPID" ] || [ "$began" != "$(began_at "$other")" ]; then
    who=
  fi
}

# The agent of an up that was killed ends within seconds. Waits a little; says who is at work, and
# fails, when $tenths are over.
wait_for_up() {
  if [ "$tenths" -le 0 ]; then
    echo "@at_work $who"
    return 1
  fi
  sleep 0.2
  tenths=$((tenths - 2))
}

await_no_up() {
  tenths=100
  while look_at_work && [ -n "$who" ]; do
    wait_for_up || return 0
  done
}

# One up at a time.
claim() {
  tenths=100
  while lock claim-lock; do # the other lock is held as long as a step runs
    look_at_work
    [ -n "$who" ] || break
    exec 9>&-
    wait_for_up || return 0
  done
  printf '%s %s %s\n' "$PPID" "$(began_at "$PPID")" "$1" >"$dir/at-work" ||
    fail "cannot write $dir/at-work"
  exec 9>&-
}

cut_record() {
  touch "$dir/steps" && head -n "$1" "$dir/steps" >"$dir/steps.new" &&
    mv "$dir/steps.new" "$dir/steps" || fail "cannot write $dir/steps"
}

append_record() {
  printf '%s\n' "$1" >>"$dir/steps" || fail "cannot write $dir/steps"
}

# Runs the line $3 as the step $1 with the hash $2. $4 and what follows: as $2 for line.
run_step() {
  lock
  cut_record "$1"
  hash=$2 line=$3 with=$4
  if [ -z "$box" ]; then
    user_line "$line" || exit
  else
    need_box
    shift 4
    # The engine's client does not pass signals on. But a stdin that never has anything and never
    # ends ends with it.
    [ -p "$dir/hold" ] || mkfifo "$dir/hold" || fail "cannot make $dir/hold"
    inside line "$hash" "$with" "$line" "$@" <>"$dir/hold" || exit
  fi
  append_record "$hash"
}

# Ray's settings of this cluster, and those given.
set_for_ray() {
  RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$top/token
  export RAY_AUTH_MODE RAY_AUTH_TOKEN_PATH
  export "${mark?}"
  [ -n "$head" ] || export RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED:-0}"
  for setting; do export "${setting?}"; done
}

# What there is of this node's container, which carries the label $label: $boxes, the ids of all;
# $box_id, of the one that runs; $box_config, what that was started with, if the record is about it.
look_at_box() {
  boxes= box_id= box_config=
  [ -f "$dir/container" ] || return 0
  read -r box_engine recorded recorded_config <"$dir/container"
  boxes=$(engine ps -aq --no-trunc --filter "label=$label") &&
    box_id=$(engine ps -q --no-trunc --filter "label=$label") ||
    fail "$box_engine can't inspect this cluster's container"
  box_id=$(echo $box_id | cut -d' ' -f1)
  [ -z "$box_id" ] || [ "$box_id" != "$recorded" ] || box_config=$recorded_config
}

need_box() {
  look_at_box
  [ -n "$box_id" ] || fail "the container $box does not run; call up again"
}

engine() { "$box_engine" "$@" 9>&-; }

# This script in the container, with the verb $1.
inside() {
  engine exec -i "$box_id" /bin/sh -c 'script=$1; shift; eval "$script"' hvdray "$script" \
    "$cluster" "$node" "$head" "$shell" "" "" "$@"
}

end_boxes() {
  tenths=50
  while [ -n "$boxes" ] && [ "$tenths" -gt 0 ]; do
    for id in $boxes; do
      engine kill "$id"
      engine rm -f "$id"
    done >/dev/null 2>&1
    look_at_box
    [ -z "$boxes" ] || sleep 0.1
    tenths=$((tenths - 1))
  done
  [ -z "$boxes" ] || fail "$box_engine cannot end the container $(echo $boxes)"
  rm -f "$dir/container"
}

# Brings the mounted file $1 up to date in the container, where it is $2: a file that was replaced
# here is another one than that which was mounted.
refresh_file() {
  [ -f "$1" ] || return 0
  there=$(engine exec "$box_id" stat -Lc %d:%i "$2")
  [ "$there" != "$(stat -Lc %d:%i "$1")" ] || return 0
  engine exec -i -u 0 "$box_id" /bin/sh -c 'umask 077
    new=$(mktemp -d /tmp/.hvdray.XXXXXX) || exit
    cat >$new/file && cat $new/file >"$1"; code=$?; rm -rf $new; exit $code' hvdray "$2" \
    <"$1" || fail "cannot bring $2 up to date in the container"
}

# The processes of this node's Ray: those with our mark, and what descends from them, because some
# overwrite their environment. Parents come first: signalled in this order, a shell ends before it
# sees that its command did, and does not go on to the next one.
ours() {
  marked=$(grep -lazxF -e "$mark" /proc/[0-9]*/environ 2>/dev/null | tr -cd '0-9\n')
  if [ -n "$marked" ] && [ -f "$dir/container" ]; then
    # Those in the container are counted there.
    files=
    for p in $marked; do files="$files /proc/$p/status"; done
    marked=$(grep -LE '^NSpid:.*[0-9][^0-9]+[0-9]' $files 2>/dev/null | tr -cd '0-9\n')
  fi
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
      for (p in is) {
        deep[p] = 0
        for (q = parent[p]; q in is && deep[p] < 999; q = parent[q]) ++deep[p]
        if (deep[p] > most) most = deep[p]
      }
      for (d = 0; d <= most; ++d) for (p in is) if (deep[p] == d && p in alive) print p
    }'
}

# The files /proc/PID/cmdline of those of the processes $2 with an argument that matches $1.
running() {
  files=
  for p in $2; do files="$files /proc/$p/cmdline"; done
  [ -n "$files" ] || return 0
  grep -lazx -e "$1" $files 2>/dev/null
}

# Says when the GCS of this node's Ray listens, which is long before `ray start` returns. Ends with
# the call that started it.
tell_listening() {
  while kill -0 $$; do
    for file in $(running '[^ ]*/gcs/gcs_server' "$(ours)"); do
      port=$(tr '\0' '\n' <"$file" | sed -n 's/^--gcs_server_port=//p')
      if grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$port") [0-9A-F]*:0000 0A" /proc/net/tcp*; then
        echo "@hvdray listening"
        return
      fi
    done
    sleep 0.2 >/dev/null
  done 2>/dev/null
}

# Says where the dashboard of this node's Ray listens, if one of the processes $1 is it. Its own
# options name the first port that it tried.
tell_dashboard() {
  for file in $(running '.*/dashboard/dashboard\.py' "$1"); do
    words=$(tr '\0' '\n' <"$file")
    case $words in *--disable-frontend*)
      echo "@no_dashboard"
      return
      ;;
    esac
    at=$(printf '%s\n' "$words" | sed -n 's/^--host=//p')
    first=$(printf '%s\n' "$words" | sed -n 's/^--port=//p')
    echo "@dashboard ${at:-127.0.0.1} $(listening_port "${file%/cmdline}" "${first:-8265}")"
    return
  done
}

# The dashboards of other clusters in this network, which are not to be taken for this one's.
tell_others() {
  for file in $(grep -lazx -e '.*/dashboard/dashboard\.py' /proc/[0-9]*/cmdline 2>/dev/null); do
    process=${file%/cmdline}
    other=$(tr '\0' '\n' <"$process/environ" 2>/dev/null | sed -n 's/^HVDRAY_NODE=\([^/]*\).*/\1/p')
    case $other in "" | "$cluster") continue ;; esac
    [ "$(readlink "$process/ns/net")" = "$(readlink /proc/self/ns/net)" ] || continue
    first=$(tr '\0' '\n' <"$file" | sed -n 's/^--port=//p')
    echo "@other $other $(listening_port "$process" "${first:-8265}")"
  done
}

# $host and $port to reach what tell_dashboard, whose words these are, told of; empty: it has none.
set_place() {
  host=$2 port=$3
  case $host in "" | 0.0.0.0 | localhost) host=127.0.0.1 ;; "::") host=::1 ;; esac
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

# The process that waits for the end of the lease; empty: none.
watcher() {
  [ -f "$dir/watcher" ] || return 0
  pid=$(cat "$dir/watcher")
  ! grep -qazxF -e "$dir/lease-watch" "/proc/$pid/cmdline" 2>/dev/null || echo "$pid"
}

# The watcher may still wait for us to let go of the lock.
is_lease_over() {
  [ -f "$dir/lease-ended" ] ||
    { [ -f "$dir/lease" ] && read -r until _ <"$dir/lease" && [ "$until" -le "$(date +%s)" ]; }
}

end_lease() {
  pid=$(watcher)
  rm -f "$dir/lease" "$dir/watcher" "$dir/lease-watch" "$dir/lease-ended"
  [ -z "$pid" ] || [ "$pid" = $$ ] || kill "$pid" 2>/dev/null
}

# In its file, this script has to find its own text.
start_watcher() {
  {
    printf '%s\n' 'script=$(sed 1d "$0")'
    printf '%s\n' "$script"
  } >"$dir/lease-watch.new" && mv "$dir/lease-watch.new" "$dir/lease-watch" ||
    fail "cannot write $dir/lease-watch"
  session=$(command -v setsid)
  $session /bin/sh "$dir/lease-watch" "$cluster" "$node" "$head" "$shell" "$engine" "$box" watch \
    </dev/null >/dev/null 2>&1 9>&- &
  # It may be over already.
  tenths=50
  while [ -f "$dir/lease" ] && [ ! -f "$dir/watcher" ] && [ "$tenths" -gt 0 ]; do
    sleep 0.1
    tenths=$((tenths - 1))
  done
  [ ! -f "$dir/lease" ] || [ -f "$dir/watcher" ] ||
    fail "the process that waits for the end of the lease does not start"
}

uptime_now() { sed 's/[. ].*//' /proc/uptime; }

# Returns when the lease has ended. It is read again and again, because it may be renewed. $known:
# the end for which $up_until is the uptime.
wait_for_lease_end() {
  while read -r until after <"$dir/lease"; do
    if [ "$until" != "$known" ]; then
      known=$until
      # A clock that is set back later does not prolong it.
      up_until=$(($(uptime_now) + until - $(date +%s)))
    fi
    rest=$((until - $(date +%s)))
    up_rest=$((up_until - $(uptime_now)))
    [ "$up_rest" -ge "$rest" ] || rest=$up_rest
    [ "$rest" -gt 0 ] || return 0
    [ "$rest" -lt 5 ] || rest=5
    nap "$rest"
  done
  exit 0 # there is none any more
}

# A sleep that ends with this process.
nap() {
  sleep "$1" &
  nap=$!
  wait "$nap"
}

# Ends all of ours: $count were found, $left could not be ended.
end_ours() {
  pids=$(ours)
  count=$(echo $pids | wc -w)
  left=
  [ "$count" -gt 0 ] || return 0
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
}

# The same, in the container, too. $left is a number.
end_ray() {
  end_ours
  left=$(echo $left | wc -w)
  [ -n "$box_id" ] || return 0
  answer=$(inside stop </dev/null) || fail "cannot end Ray in the container: $answer"
  set -- $(printf '%s\n' "$answer" | sed -n 's/^@stopped //p')
  count=$((count + ${1:-0})) left=$((left + ${2:-0}))
}

# Ends Ray, the container and the lease. at_lease_end: unless that has been renewed meanwhile.
end_node() {
  lock
  if [ "$1" = at_lease_end ]; then
    read -r now_until _ <"$dir/lease" && [ "$now_until" = "$until" ] || exit 1
  fi
  look_at_box
  end_ray
  [ "$left" -gt 0 ] || [ ! -f "$dir/container" ] || end_boxes
  rm -f "$dir/head"
  echo "@stopped $count $left"
  if [ "$left" -gt 0 ]; then
    [ "$1" != at_lease_end ]
    return
  fi
  # Lease and watcher stay until the machine is off: an up that comes before that ends them.
  [ "$1$after" = at_lease_endpoweroff ] || end_lease
  [ "$1$after" != at_lease_endstay ] || : >"$dir/lease-ended"
}

# end_node at_lease_end. A machine that is to be powered off does not wait for what hangs.
end_in_time() {
  if [ "$after" != poweroff ]; then
    (end_node at_lease_end)
    return
  fi
  (end_node at_lease_end) &
  job=$!
  while kill -0 "$job" 2>/dev/null && ! is_too_late; do nap 0.2; done
  kill -KILL "$job" 2>/dev/null
  wait "$job"
}

is_too_late() { [ "$(uptime_now)" -ge "$((up_until + 300))" ]; }

case $verb in
survey)
  [ "$1" != claim ] || claim "$2"
  [ "$1" != await ] || await_no_up
  look_at_box
  [ ! -f "$dir/steps" ] || sed 's/^/@step /' "$dir/steps"
  if [ -f "$dir/lease" ]; then
    echo "@lease $(cut -d' ' -f1 "$dir/lease")"
    [ -z "$(watcher)" ] || echo "@watched"
  fi
  [ ! -f "$dir/lease-ended" ] || echo "@lease_ended"
  [ -z "$boxes" ] || echo "@containers $(echo $boxes | wc -w)"
  [ -z "$box_config" ] || echo "@container $box_config"
  pids=$(ours)
  echo "@processes $(echo $pids | wc -w)"
  [ ! -f "$dir/head" ] || echo "@head $(cat "$dir/head")"
  [ ! -f "$dir/members" ] || sed 's/^/@member /' "$dir/members"
  [ -z "$(running '[^ ]*/gcs/gcs_server' "$pids")" ] || echo "@gcs"
  dashboard=$(tell_dashboard "$pids")
  echo "${dashboard:-$(tell_others)}"
  for file in $(raylet_of "$pids"); do
    tr '\0' '\n' <"$file" 2>/dev/null |
      sed -n 's/^--node_id=/@node /p; s/^--node_ip_address=/@address /p'
  done
  [ -z "$box_id" ] || inside survey </dev/null || fail "cannot look into the container"
  ;;
init)
  box=
  run_step "$@"
  ;;
step) run_step "$@" plain ;;
mark)
  lock
  cut_record "$1"
  hash=$2
  shift 2
  if [ -n "$box" ] && [ $# -gt 0 ]; then
    need_box
    for file; do
      [ ! -f "$file" ] || inside put "$file" <"$file" || fail "cannot put $file into the container"
    done
  fi
  [ -z "$hash" ] || append_record "$hash"
  ;;
put)
  umask 077
  cat >"$1.hvdray-new" && mv "$1.hvdray-new" "$1" || exit 1
  ;;
start)
  ! is_lease_over || fail "its lease has ended meanwhile: nothing was started"
  if [ -n "$head" ]; then
    printf '%s\n' "$head" >"$dir/head" || fail "cannot write $dir/head"
  else
    rm -f "$dir/head"
  fi
  index=$1 hash=$2 line=$3
  shift 3
  if [ -z "$box$head" ]; then
    # Before our mark is exported: what this runs is not part of Ray.
    tell_listening </dev/null &
    teller=$!
    trap 'kill "$teller" 2>/dev/null' EXIT
  fi
  [ -n "$box" ] || set_for_ray "$@"
  run_step "$index" "$hash" "$line" ray "$@"
  ;;
line)
  # In a container: the line $3, until it ends or our stdin does. Its processes are known by a mark
  # with the hash $1. $2: plain, or ray with settings NAME=VALUE as further arguments.
  exec 8<&0 </dev/null
  lock
  step=HVDRAY_STEP=$cluster/$node/$1 with=$2 line=$3
  shift 3
  [ "$with" != ray ] || set_for_ray "$@"
  (
    exec 9>&-
    while read -r _ <&8; do :; done
    # Until the command is over and has left nothing, also nothing that it was just starting.
    mark=$step over=
    trap 'over=yes' TERM
    until [ -n "$over" ] && [ -z "$(ours)" ]; do
      signal_all TERM "$(ours)"
      wait_gone 20
      signal_all KILL "$left"
      sleep 0.1
    done
  ) >/dev/null 2>&1 &
  guard=$!
  export "${step?}"
  user_line "$line" 8<&-
  code=$?
  {
    kill "$guard"
    wait "$guard"
  } 2>/dev/null
  exit "$code"
  ;;
container)
  lock
  index=$1 hash=$2 force=$3 config=$4 pull=$5 runtime=$6 shm=$7 image=$8 options=$9
  shift 9
  cut_record "$index"
  command -v "$engine" >/dev/null ||
    fail "no $engine there: install it, for example by initialization_commands"
  look_at_box
  home=$("$engine" image inspect -f '{{range .Config.Env}}{{println .}}{{end}}' "$image" 2>/dev/null |
    sed -n 's/^HOME=//p')
  if [ "$box_config" != "$config" ] || [ "$force" = force ]; then
    [ -z "$box_id" ] || inside stop </dev/null >/dev/null 2>&1
    end_boxes
    # First of all the note that there may be one: nobody else knows.
    printf '%s - -\n' "$engine" >"$dir/container" || fail "cannot write $dir/container"
    if [ "$pull" = always ] || ! "$engine" image inspect "$image" >/dev/null 2>&1; then
      "$engine" pull "$image" 9>&- || exit
      home=$("$engine" image inspect -f '{{range .Config.Env}}{{println .}}{{end}}' "$image" |
        sed -n 's/^HOME=//p')
    fi
    is_new=yes
  fi
  home=${home:-/root}
  # Pairs of source and target become options.
  count=$#
  while [ "$count" -gt 0 ]; do
    source=$HOME/$1 target=$2
    shift 2
    count=$((count - 2))
    case $target in "~" | "~/"*) target=$home${target#"~"} ;; esac
    [ "$is_new" = yes ] || refresh_file "$source" "$target"
    set -- "$@" -v "$source:$target"
  done
  if [ "$is_new" = yes ]; then
    if [ "$runtime" = detect ] && nvidia-smi >/dev/null 2>&1 &&
      "$engine" info -f '{{.Runtimes}}' 2>/dev/null | grep -q nvidia-container-runtime; then
      set -- "$@" --runtime=nvidia
    fi
    case $shm$options in
    detect*--shm-size*) ;;
    detect*)
      set -- "$@" --shm-size "$(awk '/^MemAvailable:/ {
          bytes = $2 * 1024 * 0.33; printf "%.0f", (bytes < 2e11 ? bytes : 2e11) }' /proc/meminfo)b"
      ;;
    esac
    # The options are shell text.
    eval '"$engine" run --rm --name "$box" -d -it --label "$label" "$@" \
      -e LC_ALL=C.UTF-8 -e LANG=C.UTF-8 '"$options"' --net=host "$image" bash' 9>&- >/dev/null ||
      exit
    look_at_box
    [ -n "$box_id" ] || fail "the container $box ended as soon as it had been started"
  fi
  printf '%s %s %s\n' "$engine" "$box_id" "$config" >"$dir/container.new" &&
    mv "$dir/container.new" "$dir/container" || fail "cannot write $dir/container"
  append_record "$hash"
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
  if [ -n "$box" ]; then
    need_box
    printf '%s\n' "$token" | inside token set >/dev/null || fail "no token in the container"
  fi
  printf '@token %s\n' "$token"
  ;;
versions)
  if [ -n "$box" ]; then
    need_box
    inside versions "$@" </dev/null
    exit
  fi
  user_line "$1
    ray=\$(command -v $2)"' || { echo "@ray"; exit 0; }
    python=$(sed -n "1s/^#! *//p" "$ray" 2>/dev/null)
    case $python in *python*) ;; *) python=python3 ;; esac
    $python -c "
import importlib.metadata, platform
print(\"@ray\", importlib.metadata.version(\"ray\"))
print(\"@python\", platform.python_version())"'
  ;;
stop)
  lock
  look_at_box
  end_ray
  # Of a file that had one.
  [ -n "$box" ] || [ ! -f "$dir/container" ] || end_boxes
  rm -f "$dir/head"
  echo "@stopped $count $left"
  ;;
end) end_node ;;
lease)
  lock
  if [ "$1" = 0 ]; then
    end_lease
    exit 0
  fi
  pid=$(watcher)
  printf '%s %s\n' "$1" "$2" >"$dir/lease.new" && mv "$dir/lease.new" "$dir/lease" ||
    fail "cannot write $dir/lease"
  # A new one: it knows this call's container and head.
  rm -f "$dir/watcher" "$dir/lease-ended"
  [ -z "$pid" ] || kill "$pid" 2>/dev/null
  start_watcher
  ;;
watch)
  nap= known=
  trap 'kill "$nap" 2>/dev/null; exit 0' TERM
  printf '%s\n' $$ >"$dir/watcher.new" && mv "$dir/watcher.new" "$dir/watcher" || exit 1
  wait_for_lease_end
  # What cannot be ended now, because an up is at work for example, is tried again. Powering off ends
  # that, too.
  until end_in_time; do
    [ "$after" != poweroff ] || ! is_too_late || break
    nap 5
    wait_for_lease_end
  done
  [ "$after" = poweroff ] || exit 0
  # The autoscaler has ended with Ray. Its workers know no lease.
  if [ -z "$head" ] && [ -f ray_bootstrap_config.yaml ]; then
    user_line 'timeout 600 ray down --yes --workers-only ~/ray_bootstrap_config.yaml'
  fi
  until sudo -n shutdown -h now || shutdown -h now; do nap 5; done
  exit 0
  ;;
members)
  lock
  printf '%s\n' "$@" >"$dir/members.new" && mv "$dir/members.new" "$dir/members" ||
    fail "cannot write $dir/members"
  ;;
nodes | drain)
  files=$(running '.*/dashboard/dashboard\.py' "$(ours)")
  [ -n "$files" ] || look_at_box
  if [ -n "$box_id" ]; then
    inside "$verb" "$@" </dev/null
    exit
  fi
  [ -n "$files" ] || { echo "@problem no dashboard runs on the head"; exit 0; }
  for file in $files; do
    python=$(tr '\0' '\n' <"$file" | sed -n 1p)
    set_place $(tell_dashboard "$(ours)")
    if [ -z "$port" ]; then
      echo "@no_dashboard"
      echo "@drained 0 0"
      exit 0
    fi
    "$python" -I -c "$dashboard_calls" "$top/token" "$host" "$port" "$verb" "$@"
    exit 0
  done
  ;;
*) fail "no verb $verb" ;;
esac
