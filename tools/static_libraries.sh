#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes what static programs and a library for older systems need and Debian 12 has no archives of, in the user's cache, and prints its
# prefix. For -DHVDRAY_STATIC=ON (docs/adr/0029-a-static-hvdray.md).
#   lib/, include/    libzip and Gloo as archives, cpp-httplib as one header
#   glibc/            the names that Debian 11's C library has, to link against
#   parts/NAME/       for tools/sbom.py: its copyright, and `of`: name, version, package URL, patterns of files
# Usage: tools/static_libraries.sh
set -euo pipefail
source "$(dirname "$0")/machine.sh"

# What was tried; apt checks what it gets against the archive's signature, these name it.
httplib=0.11.4+ds-1+deb12u1 httplib_sha256=a4dde747bbde7cc9fa62cdf50d61140a0eaefb7f1383497ef2d48daf3bf5f9ec
zip=1.7.3-1 zip_sha256=2b905c3e6277bb4ae62c4464c5c7bbbd6661715d5b3c0f94523c34df6d1f4d1e
glibc=2.31-13+deb11u11
# Gloo as Horovod has it: its transport is that of Debian 12's package, but for a longer backlog. Debian 13's has another handshake.
horovod=0.28.1 horovod_sha256=92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0

cache=$(cache_folder)
folder=$cache/static-4-httplib-$httplib-zip-$zip-gloo-$horovod-glibc-$glibc log=$cache/static.log

part() {  # part COPYRIGHT NAME VERSION URL PATTERN...     the files of the prefix that it has
  mkdir -p "$folder/parts/$2"
  cp "$1" "$folder/parts/$2/copyright"
  shift
  printf '%s\n' "$@" >"$folder/parts/$1/of"
}

# build SOURCES TARGET OPTION...     an archive, without the name of the folder, which has the user's, in Gloo's messages
build() {
  local sources=$1 target=$2
  shift 2
  cmake -S "$sources" -B "built-$sources" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DCMAKE_{C,CXX}_FLAGS="-ffile-prefix-map=$PWD=." "$@"
  cmake --build "built-$sources" --target "$target" -j "$(nproc)"
}

make_debian_sources() {
  apt_apart "$PWD/apt" bookworm source --download-only "cpp-httplib=$httplib" "libzip=$zip"
  sha256sum -c <<<"$httplib_sha256  cpp-httplib_$httplib.dsc"$'\n'"$zip_sha256  libzip_$zip.dsc"
  dpkg-source --extract "cpp-httplib_$httplib.dsc" httplib  # checks the archives that the .dsc names
  dpkg-source --extract "libzip_$zip.dsc" zip
  # Without what encrypts, and without formats that hvdray does not write.
  build zip install -DENABLE_{COMMONCRYPTO,GNUTLS,MBEDTLS,OPENSSL,BZIP2,LZMA,ZSTD}=OFF -DBUILD_{TOOLS,REGRESS,EXAMPLES,DOC}=OFF
  # Without what the flags of Debian's library ask for, so that all that is compiled with these is the same in every build.
  { printf '#undef CPPHTTPLIB_%s_SUPPORT\n' OPENSSL ZLIB BROTLI; cat httplib/httplib.h; } >"$folder/include/httplib.h"
  part zip/debian/copyright libzip "$zip" "pkg:deb/debian/libzip@$zip?arch=source" lib/libzip.a 'include/zip*.h'
  part httplib/debian/copyright cpp-httplib "$httplib" "pkg:deb/debian/cpp-httplib@$httplib?arch=source" include/httplib.h
}

make_gloo() {
  unset PYTHONPATH  # that of pip, which builds the wheel and calls CMake, which calls us
  /usr/bin/python3 -m venv venv
  echo "horovod==$horovod --hash=sha256:$horovod_sha256" >wanted
  venv/bin/pip download --disable-pip-version-check -q --no-deps --no-binary horovod --require-hashes --requirement wanted
  tar -xzf "horovod-$horovod.tar.gz" --strip-components 2 "horovod-$horovod/third_party/gloo"
  build gloo gloo -DUSE_{REDIS,IBVERBS,MPI,CUDA,LIBUV}=OFF -DBUILD_{TEST,BENCHMARK}=OFF
  # Not by its installation, which Horovod's changes have broken. Its licence, which they have left out, is that of Debian's package.
  cp built-gloo/gloo/libgloo.a "$folder/lib/"
  (cd gloo && find gloo -name '*.h' -exec cp --parents -t "$folder/include" {} +)
  cp built-gloo/gloo/config.h "$folder/include/gloo/"
  part /usr/share/doc/libgloo-dev/copyright gloo "0.5.0+horovod$horovod" "pkg:pypi/horovod@$horovod#third_party/gloo" lib/libgloo.a 'include/gloo/*'
}

# Names, and the few functions that programs have in themselves (libc_nonshared.a).
make_glibc() {
  local triplet library
  triplet=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
  apt_apart "$PWD/old" bullseye download "libc6=$glibc" "libc6-dev=$glibc"
  for package in libc6_*.deb libc6-dev_*.deb; do dpkg-deb --extract "$package" glibc; done
  mkdir "$folder/glibc"
  cp "glibc/lib/$triplet"/{libc.so.6,libm.so.6,libpthread.so.0,libdl.so.2,ld-linux*.so.*} "glibc/usr/lib/$triplet/libc_nonshared.a" "$folder/glibc/"
  for library in libm.so.6 libpthread.so.0 libdl.so.2; do ln -s "$library" "$folder/glibc/${library%.*}"; done
  echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( $(cd "$folder/glibc" && echo ld-linux*) ) )" >"$folder/glibc/libc.so"
  part glibc/usr/share/doc/libc6/copyright glibc "$glibc" "pkg:deb/debian/glibc@$glibc?arch=source" 'glibc/*'
}

make() {
  rm -rf "$folder"
  mkdir -p "$folder"/{work,include}
  cd "$folder/work"
  make_debian_sources
  make_gloo
  make_glibc
  cd "$folder"
  rm -rf work
  touch .complete
}

exec 9>"$folder.lock"
flock 9  # concurrent runs make it once
if [[ ! -f $folder/.complete ]]; then
  echo "== building libzip and Gloo for static programs (once)" >&2
  # In a shell of its own, because errors do not end one whose status is asked for.
  (set -e; make) >"$log" 2>&1 &
  wait $! || { tail -n 10 "$log" >&2; echo "$0: no static libraries; whole log: $log" >&2; exit 1; }
fi
exec 9>&-
printf '%s\n' "$folder"
