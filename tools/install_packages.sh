#!/usr/bin/env bash
# Installs the Debian packages that hvdray needs; a set that is there already costs milliseconds.
# Usage: tools/install_packages.sh build|test ...   (root only when something is missing)
set -euo pipefail

declare -A sets=(
  [build]="g++ cmake ninja-build ccache pkg-config git ca-certificates
    libcli11-dev libyaml-cpp-dev libcpp-httplib-dev libfmt-dev libevent-dev nlohmann-json3-dev
    libssl-dev zlib1g-dev libzip-dev libssh2-1-dev libpugixml-dev libgloo-dev libgtest-dev"
  [test]="python3 python3-pytest iproute2 nftables openssh-server openssh-client strace procps
    clang clang-tidy clang-format libclang-rt-14-dev binutils file"
  [horovod]="python3-torch libtorch-dev pybind11-dev python3-venv python3-dev python3-wheel
    python3-psutil python3-cffi python3-yaml python3-cloudpickle python3-numpy python3-pytest"
  [bench]="mpich openmpi-bin"
)

wanted=()
for name in "$@"; do
  [[ -v "sets[$name]" ]] || { echo "$0: no set '$name' (have: ${!sets[*]})" >&2; exit 2; }
  read -r -a names <<< "$(echo ${sets[$name]})"
  wanted+=("${names[@]}")
done

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $state == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

echo "== installing ${#missing[@]} Debian packages: ${missing[*]}"
if [[ $(id -u) -ne 0 ]]; then
  echo "$0: not root; run: apt-get install ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# A package wanted for its program (sshd) must not open a port of this machine: nothing is started.
policy=/usr/sbin/policy-rc.d
added=
trap 'rm -f "$log" $added' EXIT
if [[ ! -e $policy ]]; then
  added=$policy
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
# Package lists may be old or absent on a fresh image; a mirror may hiccup once.
for attempt in 1 2 3; do
  if apt-get update -q >"$log" 2>&1 &&
     apt-get install -y -q --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    exit 0
  fi
  echo "   attempt $attempt failed" >&2
  sleep $((attempt * 3))
done
tail -n 30 "$log" >&2
exit 1
