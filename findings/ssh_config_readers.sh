#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paramiko 5.1.0 and asyncssh 2.24.1, with OpenSSH 9.2p1 of Debian 12: three lines of ssh_config that ssh reads and they read otherwise.
#
# Expected: a file that `ssh -G` takes gives the same host, user and interval in the two libraries, or an error that names the line.
# Seen:
#   Include FILE            ssh and asyncssh read the file. paramiko does not, and has the line as an option "include": a host that
#                           stands there is its own name, without a word.
#   User NAME  # why        ssh ends the value at the #. paramiko's user is "NAME  # why"; asyncssh raises ConfigParseError.
#   ServerAliveInterval 1m  ssh: 60. paramiko gives the text "1m", asyncssh raises ConfigParseError.
set -euo pipefail
version=1:9.2p1-2+deb12u10
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -q "openssh-client=$version" >/dev/null 2>&1
dpkg -x openssh-client_*.deb root
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check paramiko==5.1.0 asyncssh==2.24.1
# shellcheck disable=SC2238  # a file named more
printf 'Host gpu1\n  HostName 10.0.0.7\n' >more
printf 'Include %s/more\n' "$folder" >include
printf 'Host *\n  User trainer  # who owns the data\n' >comment
printf 'Host *\n  ServerAliveInterval 1m\n' >unit
cat >read.py <<'PROGRAM'
import sys

import asyncssh
import paramiko
from asyncssh.config import SSHClientConfig

file, key = sys.argv[1:]
print("paramiko", paramiko.SSHConfig.from_path(file).lookup("gpu1").get(key.lower()), sep="=")
try:
    config = SSHClientConfig.load(None, [file], False, False, False, "me", (), "gpu1", ())
    print("asyncssh", config.get({"hostname": "Hostname"}.get(key, key)), sep="=")
except asyncssh.ConfigParseError as error:
    print("asyncssh", type(error).__name__, sep="=")
PROGRAM
reads() {  # reads FILE KEY SSH PARAMIKO ASYNCSSH: what each of them is to say
  local said
  said=$(root/usr/bin/ssh -F "$1" -G gpu1 2>/dev/null | sed -n "s/^${2,,} /ssh=/p"; venv/bin/python read.py "$1" "$2")
  echo "$1: $(paste -sd, <<<"$said")"
  [[ $said == "ssh=$3"$'\n'"paramiko=$4"$'\n'"asyncssh=$5" ]]
}
reads include hostname 10.0.0.7 gpu1 10.0.0.7
reads comment User trainer 'trainer  # who owns the data' ConfigParseError
reads unit ServerAliveInterval 60 1m ConfigParseError
echo "as described"
