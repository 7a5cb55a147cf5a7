#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that hvdray needs; takes milliseconds if they are installed.
# Usage: tools/install_packages.sh build|test ...   (needs root only if something is missing)
set -euo pipefail

declare -A sets=(
  [build]="g++ cmake ninja-build ccache pkg-config git ca-certificates
    libyaml-cpp-dev libcpp-httplib-dev libfmt-dev libevent-dev nlohmann-json3-dev
    libssl-dev zlib1g-dev libzip-dev libssh2-1-dev libpugixml-dev libgloo-dev"
  [test]="libgtest-dev debootstrap python3 python3-pytest iproute2 nftables openssh-server openssh-client strace procps rsync screen tmux python3-ipykernel
    clang clang-tidy clang-format lld libclang-rt-14-dev binutils file mypy patchelf shellcheck
    zsh fish mandoc busybox-static dpkg-dev libcli11-dev musl-tools
    debhelper dh-python lintian
    faketime locales diffoscope-minimal"
  [horovod]="make python3-torch libtorch-dev pybind11-dev python3-venv python3-dev python3-wheel
    python3-packaging python3-setuptools python3-psutil python3-cffi python3-yaml python3-cloudpickle python3-numpy python3-pytest"
  [bench]="mpich openmpi-bin"
  [site]="python3-sphinx python3-myst-parser furo python3-jieba"
  [image]="buildah"
  [browser]="chromium chromium-driver python3-selenium"
)

wanted=()
for name in "$@"; do
  [[ -v "sets[$name]" ]] || { echo "$0: no set '$name' (have: ${!sets[*]})" >&2; exit 2; }
  # shellcheck disable=SC2206  # a list of words
  wanted+=(${sets[$name]})
done

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $state == ii* ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

echo "== installing ${#missing[@]} Debian packages: ${missing[*]}"
if [[ $(id -u) -ne 0 ]]; then
  echo "$0: not root, so nothing was installed; as root: apt-get install ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
umask 022  # packages must be readable by all users, whatever the caller's umask
log=$(mktemp)
# Packages must not start services: sshd is needed as a program only and must not open a port.
policy=/usr/sbin/policy-rc.d
added=
trap 'rm -f "$log" $added' EXIT
if [[ ! -e $policy ]]; then
  added=$policy
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
# On a fresh image package lists may be old or missing; a mirror may fail halfway.
attempts=3
for ((attempt = 1; attempt <= attempts; ++attempt)); do
  # A failed list (of another archive, say) does not matter if the packages can be installed.
  apt-get update -q >"$log" 2>&1 || true
  if apt-get install -y -q --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    exit 0
  fi
  echo "   attempt $attempt of $attempts failed: $(grep -E '^(E|dpkg):' "$log" | tail -n 1)" >&2
  if grep -qiE "no space left|enough free space" "$log"; then
    echo "$0: the disk is full" >&2
    exit 1
  fi
  [[ $attempt -eq $attempts ]] && break
  echo "   trying again in $((attempt * 5)) s" >&2
  sleep $((attempt * 5))
  dpkg --configure -a >>"$log" 2>&1 || true  # finish what a failed attempt left half done
done
tail -n 30 "$log" >&2
echo "$0: gave up after $attempts attempts. Packages that are installed stay; the next run continues from there." >&2
exit 1
