# SPDX-License-Identifier: Apache-2.0
# Becomes the agent, or asks for it: the dialogue of agent_bootstrap.h. Arguments: stage id, installed path,
# directory, and the agent's. Sent as one line in single quotes, so no ' \ or ! in it (login shells treat them
# differently there), and no statement over several lines without one of ; { ( | & then do else in at the end.
#
# A host that has the agent starts only one program, ls: with many hosts, each one costs. So the user id comes from
# the kernel (from id only as a fallback), and the agent records its own use.
#
# shellcheck shell=sh
# Words are split, and names are patterns, on purpose.
# shellcheck disable=SC2034,SC2046,SC2048,SC2086,SC2088,SC2125,SC2254
i=$1
p=$2
b=$3
t=
shift 3
unset CDPATH
w=$PWD
f=./agent-$i
# Start-up files may have left no PATH worth the name.
command -v ls >/dev/null 2>&1 || {
  PATH=$PATH${PATH:+:}/usr/bin:/bin
  export PATH
}
clean() { [ -z "$t" ] || rm -f "$t"; }

# Joins an error of several lines into one. It cleans up first, since echo may die of SIGPIPE.
fail() {
  clean
  set -f
  echo HVDRAY-FAILED/1 $*
  exit 1
}
u=
if [ -r /proc/self/status ]; then
  while read -r q x u x; do
    [ "$q" = Uid: ] && break
    u=
  done </proc/self/status
fi
[ -n "$u" ] || u=$(id -u) || fail "id -u failed"

# All arguments are files or directories of an owner in $k that nobody else may write, or (if $s matches them)
# sticky directories. One bad line suffices to refuse, so that a name with a newline in it can not make up for
# another.
look() {
  LC_ALL=C ls -ldn "$@" 2>/dev/null | (
    n=$#
    while read -r m l o r; do
      case $k in
      *:$o:*) ;;
      *) exit 1 ;;
      esac
      case $m in
      [d-]????[-]??[-]* | $s) n=$((n-1)) ;;
      *) exit 1 ;;
      esac
    done
    [ $n = 0 ]
  )
}

# The same for the current directory and the agent in it, whose names contain no blanks.
mine() {
  set -f
  set -- $(LC_ALL=C ls -ldn . "$f" 2>/dev/null)
  set +f
  [ $# = 18 ] && [ "$3 ${12}" = "$u $u" ] || return 1
  case "$1 ${10}" in
  d????[-]??[-]*" "[-]????[-]??[-]*) ;;
  *) return 1 ;;
  esac
}

# Nobody else can have put this program here: it and each directory above it belong to us or root. Refuses a
# symbolic link, whose mode tells nothing about its target.
safe() {
  q=$(cd -P "${1%/*}/" 2>/dev/null && pwd -P) || return 1
  q=${q%/}
  set -- "$q/${1##*/}" /
  while [ -n "$q" ]; do
    set -- "$@" "$q"
    q=${q%/*}
  done
  k=:0:$u:
  s="d????????[tT]*"
  look "$@"
}
run() {
  PWD=$w
  exec "$f" --folder "$w" "$@"
}

if [ -n "$p" ] && [ -x "$p" ] && safe "$p"; then
  exec "$p" "$@"
fi
case "$b" in
"~" | "~/"*) b=$HOME${b#?} ;;
esac
if [ -n "$b" ]; then
  d=$b/hvdray-agents-$u
elif [ -n "$XDG_CACHE_HOME" ]; then
  d=$XDG_CACHE_HOME/hvdray/agents-$u
elif [ -d "$HOME" ]; then
  d=$HOME/.cache/hvdray/agents-$u
else
  fail "no home directory ($HOME)"
fi
[ -d "$d" ] || e=$(umask 077; mkdir -p "$d" 2>&1) || fail "mkdir $d: $e"
if [ -L "$d" ]; then
  fail "$d is a link, and others may lead it elsewhere"
fi
# It enters the directory before it checks it, so nobody can replace it afterwards by a rename. Therefore the agent
# is run by a relative name, and gets the old directory as an argument.
cd "$d" 2>/dev/null || fail "cannot enter $d"
if [ -x "$f" ] && mine; then
  run "$@"
fi
k=:$u:
s=none
look . || fail "$d is not yours, or others may write in it"

# Workers inherit the agent's umask, so the old one comes back. Removes only files that were staged here.
m=$(umask)
umask 077
t=$f.$(uname -n).$$
trap clean 0 1 2 15
e=$({ rm -f "$t"; (set -C; : >"$t"); } 2>&1) || fail "write in $d: $e"
echo "HVDRAY-STAGE/1 $(uname -s) $(uname -m) $d"
read -r s n || exit 1
e=$({ head -c "$n" | gzip -dc >"$t"; } 2>&1) || fail "write $t in $d: $e"
if command -v sha256sum >/dev/null 2>&1; then
  [ "$(sha256sum <"$t" | cut -c 1-64)" = "$s" ] || fail "checksum of $t in $d is wrong"
fi
e=$({ chmod 700 "$t" && mv -f "$t" "$f"; } 2>&1) || fail "put $f in place in $d: $e"
x=[0-9a-f]
x=$x$x$x$x
x=$x$x
x=$x$x
x=$x$x
for g in "agent-$x" "agent-$x.*"; do
  find . -maxdepth 1 -type f -name "$g" -mtime +30 -exec rm -f {} + 2>/dev/null
done
[ -x "$f" ] || fail "$d cannot hold programs (mounted noexec)"
umask "$m"
run "$@"
