#!/bin/sh
# Adds what tests, lint and documents need to the virtual environment named by the first argument.
set -eu
venv=$1

echo "installing what tests need into $venv" >&2
# --group needs pip 25.1 or newer
"$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade pip
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt \
    --editable '.[capture,keyring,mpi,train,tune]' --group dev
sh "$(dirname "$0")/prometheus.sh" "$venv/bin"
