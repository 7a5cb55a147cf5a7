#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A worker of `hvdray serve` that needs nothing but a shell (docs/channel.md): doubles numbers, and tells the size of
# objects. Their bytes come as a descriptor, which a shell can't take.
say() {
  echo "$1" >&"$HVDRAY_CHANNEL_FD"
}

# The number behind a key of the message.
number() {
  rest=${message#*"\"$1\":"}
  echo "${rest%%[!0-9]*}"
}

say '{"type":"hello","protocol":1,"client":"sh"}'
while read -r message <&"$HVDRAY_CHANNEL_FD"; do
  case $message in
    *'"type":"data"'*) say "{\"type\":\"data\",\"data\":$((2 * $(number data)))}" ;;
    *'"type":"object"'*) say "{\"type\":\"data\",\"data\":\"${GREETING-}: object $(number object) has $(number size) bytes\"}" ;;
    *'"type":"end"'*) exit ;;
  esac
done
