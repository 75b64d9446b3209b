#!/bin/sh
# Creates the virtual environment named by the first argument, and installs the system packages if allowed.
set -eu
venv=$1

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "railbed needs Python 3.11 or newer; '$PYTHON' is not: install one, or call make PYTHON=python3.12" >&2
    exit 1
}

missing=
if command -v dpkg-query >/dev/null 2>&1; then
    for package in $APT_PACKAGES; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || missing="$missing $package"
    done
fi
# A Python from outside the distribution brings its own venv.
if "$PYTHON" -c 'import ensurepip' 2>/dev/null; then
    missing=$(echo "$missing" | sed 's/ python3-venv//')
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "installing$missing" >&2
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "these packages are missing, and what needs them is skipped: sudo apt-get install$missing" >&2
    fi
fi

[ -x "$venv/bin/python" ] || "$PYTHON" -m venv "$venv"
# --group needs pip 25.1 or newer
"$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade pip
"$venv/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
sh tools/prometheus.sh "$venv/bin"
