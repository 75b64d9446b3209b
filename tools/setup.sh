#!/bin/sh
# Creates the virtual environment named by the first argument, for those who use railbed: this source and what
# training needs.
set -eu
venv=$1

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "railbed needs Python 3.11 or newer; '$PYTHON' is not: install one, or call make PYTHON=python3.12" >&2
    exit 1
}

has_venv() { "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; }
# Debian and Ubuntu split it off; a Python from elsewhere has it.
if ! has_venv; then
    package=$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    [ "$(id -u)" != 0 ] || sh "$(dirname "$0")/packages.sh" "$package"
    has_venv || {
        echo "'$PYTHON' cannot create virtual environments: sudo apt-get install --no-install-recommends $package" >&2
        exit 1
    }
fi

# An environment that was left incomplete, or moved, is made again.
"$venv/bin/pip" --version >/dev/null 2>&1 || "$PYTHON" -m venv --clear "$venv"
echo "installing railbed and what training needs into $venv: a minute or two, most of it for torch" >&2
here=$(dirname "$0")
# pip first: the one that Python brings may be years old.
sh "$here/install_locked.sh" "$venv" build
torch=$("$venv/bin/python" -m tools.torch_build)
printf '%s\n' "$torch" | sh "$here/install_locked.sh" "$venv" railbed train -
# All that it requires and is built with is there now: nothing is downloaded for it that the lock files do not list.
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
