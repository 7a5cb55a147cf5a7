#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# furo of Debian 12 (2022.12.07+dfsg-1) with Sphinx 5.3.0: a page opened from the disk, or served from any folder, has neither its base
# styles nor its script.
#
# Expected: the theme that Debian packages makes the site that PyPI's makes: all it needs lies in the site's _static.
# Seen: the package puts the theme's sources where PyPI has its bundle. furo.css imports normalize.css from /javascript of the server, which
# only Debian's javascript-common for a web server provides; and furo.js begins with an import statement, but pages load it as a plain
# script, in which that is a syntax error. Sphinx, with -n -W, reports nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q furo=2022.12.07+dfsg-1 >/dev/null 2>&1
dpkg -x furo_*.deb root
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check Sphinx==5.3.0 sphinx-basic-ng==1.0.0b2 beautifulsoup4==4.12.3 pygments==2.18.0
mkdir pages
printf 'Page\n====\n' >pages/index.rst
echo 'html_theme = "furo"' >pages/conf.py
PYTHONPATH=root/usr/lib/python3/dist-packages venv/bin/python -m sphinx -q -n -W -b html pages site

echo "furo.css: $(grep -o '@import[^;]*' site/_static/styles/furo.css | head -n 1)"
grep -q '^@import url(/javascript/normalize.css/normalize.css)' site/_static/styles/furo.css
echo "furo.js: $(head -n 1 site/_static/scripts/furo.js)"
grep -q '^import ' site/_static/scripts/furo.js
tag=$(grep -o '<script[^>]*scripts/furo.js[^>]*>' site/index.html)
echo "the page: $tag"
[[ $tag != *module* ]]
