#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what Debian has no archives of, from Debian's source packages, in the user's cache, and prints its prefix: libzip.a, and
# cpp-httplib as one header. For -DHVDRAY_STATIC=ON.
# Usage: tools/static_libraries.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

# What was tried; apt checks what it gets against the archive's signature, these name it.
httplib=0.11.4+ds-1+deb12u1 httplib_sha256=a4dde747bbde7cc9fa62cdf50d61140a0eaefb7f1383497ef2d48daf3bf5f9ec
zip=1.7.3-1 zip_sha256=2b905c3e6277bb4ae62c4464c5c7bbbd6661715d5b3c0f94523c34df6d1f4d1e

cache=$(cache_folder)
folder=$cache/static-httplib-$httplib-zip-$zip log=$cache/static.log

make() {
  rm -rf "$folder"
  mkdir -p "$folder/work"
  cd "$folder/work"
  apt_apart "$folder/work/apt" bookworm source --download-only "cpp-httplib=$httplib" "libzip=$zip"
  sha256sum -c <<<"$httplib_sha256  cpp-httplib_$httplib.dsc"$'\n'"$zip_sha256  libzip_$zip.dsc"
  dpkg-source --extract "cpp-httplib_$httplib.dsc" httplib  # checks the archives that the .dsc names
  dpkg-source --extract "libzip_$zip.dsc" zip
  # Without what encrypts, and without formats that hvdray does not write.
  cmake -S zip -B built -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
    -DENABLE_{COMMONCRYPTO,GNUTLS,MBEDTLS,OPENSSL,BZIP2,LZMA,ZSTD}=OFF -DBUILD_{TOOLS,REGRESS,EXAMPLES,DOC}=OFF
  cmake --build built --target install -j "$(nproc)"
  cp httplib/httplib.h "$folder/include/"
  cd "$folder"
  rm -rf work
  touch .complete
}

exec 9>"$folder.lock"
flock 9  # concurrent runs make it once
if [[ ! -f $folder/.complete ]]; then
  echo "== building libzip for static programs (once)" >&2
  # In a shell of its own, because errors do not end one whose status is asked for.
  (set -e; make) >"$log" 2>&1 &
  wait $! || { tail -n 10 "$log" >&2; echo "$0: no static libraries; whole log: $log" >&2; exit 1; }
fi
exec 9>&-
printf '%s\n' "$folder"
