# SPDX-License-Identifier: Apache-2.0
# Words for `export`: where the GCS of this host's node of $cluster is, which is marked in its environment, and the
# dashboard with that GCS. Of processes in this network: those of containers are seen, too. Where it has none and
# another cluster does, stderr says so. Runs behind listening_port.sh.
#
# shellcheck shell=sh disable=SC2013,SC2086,SC2154
here() { [ "$(readlink "${1%cmdline}ns/net")" = "$(readlink /proc/self/ns/net)" ]; }
running() { grep -lazx -e "$1" /proc/[0-9]*/cmdline 2>/dev/null; }
for f in $(running '[^ ]*/raylet/raylet'); do
  grep -qazx -e "HVDRAY_NODE=$cluster/.*" "${f%cmdline}environ" 2>/dev/null && here $f || continue
  gcs=$(tr '\0' '\n' <$f | sed -n 's/^--gcs-address=//p')
  [ -n "$gcs" ] || exit 0
  echo "RAY_ADDRESS=$gcs"
  for d in $(running '.*/dashboard/dashboard[.]py'); do
    words=$(tr '\0' '\n' <$d)
    case $words in
    *--disable-frontend*) continue ;;
    esac
    printf '%s\n' "$words" | grep -qxF -e "--gcs-address=$gcs" && here $d || continue
    host=$(printf '%s\n' "$words" | sed -n 's/^--host=//p')
    port=$(printf '%s\n' "$words" | sed -n 's/^--port=//p')
    case $host in
    '' | 0.0.0.0 | localhost) host=127.0.0.1 ;;
    *:*) host="[$host]" ;;
    esac
    echo "RAY_API_SERVER_ADDRESS=http://$host:$(listening_port ${d%/cmdline} ${port:-8265})"
    break
  done
  exit 0
done
for f in $(running '[^ ]*/raylet/raylet'); do
  grep -qazx -e "HVDRAY_NODE=.*" "${f%cmdline}environ" 2>/dev/null && here $f || continue
  echo "hvdray: no Ray of cluster $cluster runs here; what looks for one finds that of another cluster" >&2
  exit 0
done
