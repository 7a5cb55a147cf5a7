# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Checks and paths for the scripts of this tree, which source this file. Sets HOME if it is empty.

if [[ -z ${HOME:-} ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME=${HOME:-/nonexistent}
fi

# Makes and prints hvdray's directory in the user's cache.
cache_folder() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/hvdray
  if ! mkdir -p "$folder" 2>/dev/null || [[ ! -w $folder ]]; then
    echo "${0##*/}: cannot write to $folder; set XDG_CACHE_HOME to a directory for caches" >&2
    return 1
  fi
  printf '%s\n' "$folder"
}

# CMakePresets.json needs CMake 3.25; older versions fail on it with a misleading message.
check_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/^cmake version //p')
  if [[ -z $version ]] || ! printf '3.25\n%s\n' "$version" | sort -V -C; then
    echo "${0##*/}: $(command -v cmake || echo cmake) is CMake ${version:-of no version}; hvdray needs 3.25 or" \
         "later. If that is not Debian's, put /usr/bin first in PATH." >&2
    return 1
  fi
}

# On a full disk every tool prints a different error, so this names the cause.
tell_full_disk() {  # tell_full_disk DIRECTORY
  local free
  free=$(df -Pm "$1" 2>/dev/null | awk 'NR == 2 {print $4}')
  [[ ${free:-9999} -ge 100 ]] || echo "${0##*/}: only $free MB are free where $1 is" >&2
}

# Prints the address of the Debian mirror that this machine uses; nothing where none is to be seen.
debian_mirror() {
  grep -hoE '^(URIs:|deb( \[[^]]*\])?) +[a-z]+:[^ ]+' /etc/apt/sources.list \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    grep -v security | sed -E 's/^.* //; q' || true
}

# Runs apt-get with package lists and a status of its own, in FOLDER, to download: nothing of this machine changes, and root is
# not needed.
apt_apart() {  # apt_apart FOLDER SUITE WORD...
  local apt=$1 suite=$2 mirror keys=/usr/share/keyrings/debian-archive-keyring.gpg
  shift 2
  mirror=$(debian_mirror)
  [[ -n $mirror ]] || { echo "apt's sources name no mirror of Debian"; return 1; }
  mkdir -p "$apt"/{lists/partial,archives/partial}
  echo "deb [signed-by=$keys] $mirror $suite main" >"$apt/sources.list"
  [[ $1 != source ]] || sed -i 's/^deb/deb-src/' "$apt/sources.list"
  : >"$apt/status"
  local options=(-qq -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt"
                 -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
                 -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User=root
                 -o APT::Install-Recommends=false -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Debug::NoLocking=1)
  apt-get "${options[@]}" update && apt-get "${options[@]}" "$@"
}

# Prints the cache's virtual environment with packages of PyPI, which is made once. The caller's array venv_options has words
# for python -m venv.
cached_venv() {  # cached_venv NAME PROGRAM PACKAGE...     PROGRAM is one that it then has
  local name=$1 program=$2 cache tag venv log python=/usr/bin/python3
  shift 2
  cache=$(cache_folder) || return
  tag=$($python -c 'import sys; print(f"py{sys.version_info[0]}{sys.version_info[1]}")') || return
  venv=$cache/$name-$tag log=$cache/$name.log
  exec 9>"$cache/$name.lock"
  flock 9  # concurrent runs make it once
  if [[ ! -x $venv/bin/$program || ! -f $venv/.complete ]]; then
    rm -rf "$venv"
    echo "== installing $1 (once)" >&2
    # shellcheck disable=SC2154  # the caller may set it
    $python -m venv ${venv_options[@]+"${venv_options[@]}"} "$venv" >&2 || return
    if ! "$venv/bin/pip" install --disable-pip-version-check -q "$@" >"$log" 2>&1; then
      tail -n 40 "$log" >&2
      echo "${0##*/}: $1 was not installed; whole log: $log" >&2
      return 1
    fi
    touch "$venv/.complete"
  fi
  exec 9>&-
  printf '%s\n' "$venv"
}
