#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# OpenSSH 9.2p1 of Debian 12: `ssh -G HOST`, which prints settings and connects to nothing, obeys an option for sessions.
#
# Expected: with "ForkAfterAuthentication yes" in the configuration, `ssh -G HOST` prints the settings and exits with 0, as it
# does with every other option of a session (SessionType none, StdinNull yes, RequestTTY force).
# Seen: exit code 255, "Cannot fork into background without a command to execute.", and no settings. With a word of a command,
# `ssh -G HOST true`, it prints them; but that form is refused where RemoteCommand is set: "Cannot execute command-line and
# remote command." So a program that asks `ssh -G` must override one of the two options itself.
set -euo pipefail
version=1:9.2p1-2+deb12u10
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
(cd "$folder" && apt-get download -q "openssh-client=$version" >/dev/null 2>&1 && dpkg -x openssh-client_*.deb root)
ssh=$folder/root/usr/bin/ssh
"$ssh" -V

asked() {  # asked OPTION WORD...: the exit code of ssh -G with that line of configuration; its output is in $folder/out
  printf 'Host *\n%s\n' "$1" >"$folder/config"
  shift
  local code=0
  "$ssh" -F "$folder/config" -G "$@" >"$folder/out" 2>&1 </dev/null || code=$?
  echo "$code"
}

for option in "SessionType none" "StdinNull yes" "RequestTTY force" "RemoteCommand date"; do
  [[ $(asked "  $option" example.invalid) == 0 ]]
  grep -q '^hostname example.invalid$' "$folder/out"
  echo "$option: 0, with settings"
done
[[ $(asked "  ForkAfterAuthentication yes" example.invalid) == 255 ]]
grep -q '^Cannot fork into background without a command to execute' "$folder/out"
if grep -q '^hostname ' "$folder/out"; then exit 1; fi
echo "ForkAfterAuthentication yes: 255: $(cat "$folder/out")"
[[ $(asked "  ForkAfterAuthentication yes" example.invalid true) == 0 ]]
echo "ForkAfterAuthentication yes, with a command: 0"
[[ $(asked "  RemoteCommand date" example.invalid true) == 255 ]]
grep -q '^Cannot execute command-line and remote command' "$folder/out"
echo "RemoteCommand date, with a command: 255: $(cat "$folder/out")"
echo "as described"
