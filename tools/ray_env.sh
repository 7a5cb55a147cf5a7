#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment with unmodified Ray for the tests' clusters and prints its directory,
# which is in the user's cache. hvdray itself does not need it: a client has no Ray.
# Usage: tools/ray_env.sh [VERSION]     default 2.60.0; 2.40.0 is the older version tested
#        tools/ray_env.sh libraries     what ray[train] and ray[tune] need besides, in releases that both take and that do not
#                                       break Debian's torch; for PYTHONPATH
set -euo pipefail
source "$(dirname "$0")/machine.sh"

version=${1:-2.60.0}
# Requirements that Ray does not pin, and whose later releases break it.
pins=()
case "$version" in
  libraries)
    cached_venv ray-libraries-pandas-2.3.3 pip numpy==1.26.4 pandas==2.3.3 pyarrow==21.0.0 fsspec==2025.9.0 tensorboardX==2.6.4
    exit
    ;;
  2.40.0) pins=('click<8.2' 'setuptools<80') ;;  # `ray start` copies click's options; pkg_resources
esac
cached_venv "ray-$version" ray "ray[default]==$version" "${pins[@]}"
