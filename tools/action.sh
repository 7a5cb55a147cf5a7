#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What action.yml does, which gives PACKAGE, SHA256, ARGUMENTS and REPORT: installs hvdray for this step and the next ones, runs a
# job, and tells the workflow how it ended by an annotation, the step's summary, and the outputs exit-code and report. Ends with the
# job's exit code; with 2 if nothing was started.
set -euo pipefail

refuse() {
  local text=${1//%/%25}  # one line, in which an input can't give the runner commands
  text=${text//$'\r'/%0D}
  echo "::error title=hvdray::${text//$'\n'/%0A}"
  echo "exit-code=2" >>"$GITHUB_OUTPUT"
  exit 2
}

[[ $(uname -s) == Linux ]] || refuse "hvdray runs on Linux only"
[[ $SHA256 =~ ^[0-9a-f]{64}$ ]] || refuse "sha256: expected 64 hexadecimal digits, found '$SHA256'"
# A line break in its name would be another output.
[[ -n $REPORT && $REPORT != *[$'\r\n']* ]] || refuse "report: expected the name of a file, found '$REPORT'"
path=$(realpath --canonicalize-missing -- "$REPORT") written=
[[ ! -d $path ]] || refuse "report: $path is a folder"
mkdir -p -- "$(dirname -- "$path")" || refuse "report: there is no place for $path"
rm -f -- "$path"  # of an earlier step
folder=$(mktemp -d "$RUNNER_TEMP/hvdray.XXXXXX")
file=$folder/${PACKAGE##*/}
case $PACKAGE in
  https://*) curl --fail --silent --show-error --location --proto =https --output "$file" "$PACKAGE" ||
    refuse "package: $PACKAGE can't be fetched" ;;
  *) cp -- "$PACKAGE" "$file" || refuse "package: $PACKAGE can't be read" ;;
esac
read -r found _ <<<"$(sha256sum -- "$file")"
[[ $found == "$SHA256" ]] || refuse "package: the SHA-256 of $PACKAGE is $found, not $SHA256"
case $file in
  *.whl)  # not into the environment, whose python in PATH would take the place of the workflow's
    python3 -m venv "$folder/env" || refuse "package: a wheel needs python3 with venv"
    "$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --target "$folder/hvdray" "$file" ||
      refuse "package: $PACKAGE can't be installed" ;;
  *.tar.*) tar -xf "$file" -C "$folder" || refuse "package: $PACKAGE can't be unpacked" ;;
  *) refuse "package: expected a name that ends with .whl or .tar.gz, found $PACKAGE" ;;
esac
program=$(find "$folder" -path '*/bin/hvdray' -type f -print -quit)
[[ -n $program ]] || refuse "package: $PACKAGE has no bin/hvdray"
dirname "$program" >>"$GITHUB_PATH"  # for the next steps
export PATH="${program%/*}:$PATH"

mapfile -t words <<<"${ARGUMENTS%$'\n'}"
code=0
"$program" run --report "$path" "${words[@]}" || code=$?
[[ ! -f $path ]] || written=$path
printf '%s\n' "exit-code=$code" "report=$written" >>"$GITHUB_OUTPUT"
python3 - "$code" "$written" <<'END'
import json, os, sys

code, path = sys.argv[1:]
report, error = {}, None
if path:
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    error = report["exit"]["error"]
elif code != "0":  # else it was to show a plan, say
    error = {"code": f"code {code}", "message": "the job did not begin", "hint": "see the log"}
if error:
    text = error["message"] + (f" ({error['hint']})" if error["hint"] else "")
    for byte, written in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(byte, written)
    print(f"::error title=hvdray {error['code']}::{text}")
rows = [("ended with", error["message"] if error else "success"), ("exit code", code)]
if report:
    rows += [("workers", report["np"]), ("seconds", f"{report['duration_s']:.1f}"), ("command", " ".join(report["command"]))]
plain = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "&": "&amp;", "\n": " ", "`": "\\`", "*": "\\*", "_": "\\_", "[": "\\["})
with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
    summary.write("### hvdray\n\n| | |\n|---|---|\n")
    summary.writelines(f"| {name} | {str(value).translate(plain)} |\n" for name, value in rows)
END
exit "$code"
