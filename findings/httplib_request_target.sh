#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cpp-httplib 0.11.4 of Debian 12: its client rewrites the target of a request that is valid as it stands.
#
# Expected: a target with only characters that RFC 3986 allows there is sent as it was given.
# Seen: in "/kv?name=a+b,c;d'e" the plus, the comma, the semicolon and the quote go out as %2B, %2C, %3B, %27; so a form's "a b", written
# "a+b", arrives as "a+b", and a signature over the target that was given does not hold. Of the other delimiters ! $ & ( ) * : @ = stay, and
# an escape that is there already (%2F) is not escaped again.
set -euo pipefail
version=0.11.4+ds-1+deb12u1
folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -q "libcpp-httplib-dev=$version" "libcpp-httplib0.11=$version" >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
library=$(echo root/usr/lib/*/libcpp-httplib.so.0.11)
cat >get.cc <<'CODE'
#include <httplib.h>
#include <cstdio>
#include <cstdlib>
int main(int argc, char** argv) {
  httplib::Client client("127.0.0.1", std::atoi(argv[1]));
  for (int i = 2; i < argc; ++i) std::puts(client.Get(argv[i])->body.c_str());
}
CODE
c++ -std=c++17 -O0 -Iroot/usr/include -DCPPHTTPLIB_OPENSSL_SUPPORT -DCPPHTTPLIB_ZLIB_SUPPORT -DCPPHTTPLIB_BROTLI_SUPPORT get.cc \
    "$library" -lssl -lcrypto -lz -pthread -Wl,--allow-shlib-undefined -Wl,-rpath,"$folder/${library%/*}" -o get
cat >echo.py <<'CODE'
import http.server

class Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Echo)
print(server.server_port, flush=True)
server.serve_forever()
CODE
mkfifo port
python3 echo.py >port &
server=$!
read -r number <port
targets=("/kv?name=a+b,c;d'e" "/a+b" '/a%20b?q=%2F' '/a:b@c!$&()*=')
mapfile -t sent < <(./get "$number" "${targets[@]}")
for i in "${!targets[@]}"; do echo "${targets[i]}  ->  ${sent[i]}"; done
[[ ${sent[0]} == "/kv?name=a%2Bb%2Cc%3Bd%27e" && ${sent[1]} == /a%2Bb ]]
[[ ${sent[2]} == "${targets[2]}" && ${sent[3]} == "${targets[3]}" ]]
echo "as described"
