#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a fresh clone of this tree on a bare machine: Debian 12 as debootstrap makes it, plus only
# ca-certificates and git. Needs root. The root file system is made once and kept in the user's cache; a run writes
# into a layer over it, which is removed when the run ends. The clone includes uncommitted changes.
# Usage: tools/bare_root.sh [OPTION]... [--] COMMAND [ARGUMENT]...
#   --at DIRECTORY         where the clone is inside (default /root/hvdray)
#   --bind OUTSIDE:INSIDE  mounts a directory from outside, writable
#   --env NAME=VALUE       sets a variable inside; --env NAME= sets an empty one, --env NAME removes one
#   --suite NAME           another release of Debian, bullseye say; with python3-venv
#   --space SIZE           size of the layer (64M, 2G): a file system in memory
#   --warm                 mounts the compiler cache, Horovod's and Ray's environments, and downloaded packages
set -euo pipefail
source "$(dirname "$0")/machine.sh"

at=/root/hvdray binds=() variables=() space='' warm=0 suite=bookworm packages=ca-certificates,git
while [[ $# -gt 0 ]]; do
  case "$1" in
    --at) at=$2; shift 2 ;;
    --bind) binds+=("$2"); shift 2 ;;
    --env) variables+=("$2"); shift 2 ;;
    --suite) suite=$2 packages=ca-certificates,git,python3-venv; shift 2 ;;
    --space) space=$2; shift 2 ;;
    --warm) warm=1; shift ;;
    --) shift; break ;;
    -*) echo "usage: $0 [--at DIRECTORY] [--bind OUTSIDE:INSIDE] [--env NAME=VALUE] [--suite NAME] [--space SIZE] [--warm] [--] COMMAND" >&2
        exit 2 ;;
    *) break ;;
  esac
done
[[ $# -gt 0 ]] || { echo "$0: expected a command" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || { echo "$0: debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap >/dev/null ||
  { echo "$0: debootstrap is missing: tools/install_packages.sh test" >&2; exit 1; }

tree=$(cd "$(dirname "$0")/.." && pwd)
cache=$(cache_folder)
root=$cache/bare-$suite

# Copies the package sources and proxy settings from outside, but no hooks and no secrets.
copy_apt_configuration() {  # copy_apt_configuration ROOT
  local part
  rm -f "$1/etc/apt/sources.list"
  for part in sources.list sources.list.d trusted.gpg.d keyrings preferences.d; do
    [[ ! -e /etc/apt/$part ]] || cp -rL "/etc/apt/$part" "$1/etc/apt/"
  done
  apt-config dump | grep -iE '^Acquire::(https?|ftp|Check-[a-z-]+|Retries|Proxy[a-z-]*|ForceIPv[46])[: ]' \
    >"$1/etc/apt/apt.conf.d/00outside" || true
}

make_root() {
  local mirror new=$root.new
  mirror=$(debian_mirror)
  echo "== bare root: debootstrap $suite (once)" >&2
  rm -rf --one-file-system "$new"
  # Without a mirror debootstrap uses its default.
  if ! debootstrap --variant=minbase --include="$packages" "$suite" "$new" \
       ${mirror:+"$mirror"} >"$cache/bare-$suite.log" 2>&1; then
    tail -n 20 "$cache/bare-$suite.log" >&2
    echo "$0: debootstrap failed; whole log: $cache/bare-$suite.log" >&2
    exit 1
  fi
  rm -rf --one-file-system "$root"
  mv "$new" "$root"
  touch "$root.complete"
}

exec 7>"$root.lock"
flock 7
[[ -f $root.complete && -x $root/usr/bin/git ]] || make_root
exec 7>&-

# A killed run leaves its directories behind; the lock distinguishes them from those in use, and new ones have it before others look.
exec 7>"$cache/bare.lock"
flock 7
for old in "$cache"/bare-run.*; do
  [[ ! -d $old ]] || flock -n "$old" rm -rf --one-file-system "$old" || true
done
run=$(mktemp -d "$cache/bare-run.XXXXXX")
exec 8<"$run"
flock 8
# Links to the downloaded packages: apt locks the directory of its own, and gives up at once where another run has it.
debs=$(mktemp -d "$cache/bare-run.XXXXXX")
exec 9<"$debs"
flock 9
exec 7>&-
chmod 755 "$run" "$debs"
keep_debs() {
  [[ $warm == 0 ]] || find "$debs" -maxdepth 1 -name '*.deb' -exec cp --link --no-clobber -t "$cache/debs" {} + || true
}
trap 'keep_debs; rm -rf --one-file-system "$run" "$debs"' EXIT

# Proxy and pip settings also come from outside, except paths that do not exist inside.
environment=(HOME=/root "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
for name in CI TERM "${!PIP_@}" http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [[ -v $name && ! (${!name} == /* && ! -e $root${!name}) ]] && environment+=("$name=${!name}")
done
if [[ $warm == 1 ]]; then
  objects=$(ccache -k cache_dir)
  mkdir -p "$objects" "$cache/debs"
  find "$cache/debs" -maxdepth 1 -name '*.deb' -exec cp --link -t "$debs" {} + || true
  binds+=("$objects:/root/.cache/ccache" "$debs:/var/cache/apt/archives" "$cache:$cache")
  environment+=("XDG_CACHE_HOME=${cache%/hvdray}" CCACHE_DIR=/root/.cache/ccache
                "CCACHE_MAXSIZE=$(ccache -k max_size)")
fi
for variable in "${variables[@]}"; do
  kept=()
  for old in "${environment[@]}"; do [[ $old == "${variable%%=*}"=* ]] || kept+=("$old"); done
  environment=("${kept[@]}")
  [[ $variable == *=* ]] && environment+=("$variable")
done

export root run at space tree warm
export -f copy_apt_configuration
inside() {
  set -euo pipefail
  local top=$run/root file difference
  mkdir "$top"
  [[ -z $space ]] || mount -t tmpfs -o "size=$space,mode=755" layer "$run"
  mkdir -p "$top" "$run/upper" "$run/work"
  # A file system that can't be layered (such as an overlay) gets a copy instead.
  mount -t overlay overlay -o "lowerdir=$root,upperdir=$run/upper,workdir=$run/work" "$top" 2>/dev/null ||
    { cp -a "$root/." "$top/"; mount --bind "$top" "$top"; }
  mount -t proc proc "$top/proc"
  mount --rbind /dev "$top/dev"
  mount --rbind /sys "$top/sys"
  rm -f "$top/etc/resolv.conf"
  cp -L /etc/resolv.conf "$top/etc/resolv.conf"
  cp -L /etc/hosts "$top/etc/hosts"
  copy_apt_configuration "$top"
  # The layer is discarded, so packages need no fsync.
  [[ $warm == 0 ]] || echo force-unsafe-io >"$top/etc/dpkg/dpkg.cfg.d/00layer"
  for file in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" /etc/pip.conf; do
    [[ ! -f $file || -e $top/etc/pip.conf ]] || cp "$file" "$top/etc/pip.conf"
  done
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    cp -L /usr/local/share/ca-certificates/*.crt "$top/usr/local/share/ca-certificates/"
    chroot "$top" update-ca-certificates >/dev/null 2>&1
  fi
  while [[ $1 != -- ]]; do
    mkdir -p "$top/${1#*:}"
    mount --bind "${1%%:*}" "$top/${1#*:}"
    shift
  done
  shift
  mkdir -p "$(dirname "$top$at")"
  git clone -q --no-local --depth 1 "$tree" "$top$at"
  difference=$run/difference
  cp "$(git -C "$tree" rev-parse --path-format=absolute --git-path index)" "$run/index"
  GIT_INDEX_FILE=$run/index git -C "$tree" add -A
  GIT_INDEX_FILE=$run/index git -C "$tree" diff --cached --binary HEAD >"$difference"
  [[ ! -s $difference ]] || git -C "$top$at" apply --index "$difference"
  # Not chroot: a process that enters another mount namespace, as the tests' hosts do, would be outside again.
  mkdir "$top/.outside"
  cd "$top"
  pivot_root . .outside
  exec /usr/bin/env -i "$@"
}
export -f inside

# In its own PID namespace, processes that the command leaves running end with it.
status=0
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
  bash -c 'inside "$@"' inside "${binds[@]}" -- "${environment[@]}" \
  sh -c 'umount -l /.outside && rmdir /.outside && cd "$1" && shift && exec "$@"' sh "$at" "$@" 8<&- 9<&- || status=$?
exit $status
