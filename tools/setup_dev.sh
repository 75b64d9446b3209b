#!/bin/sh
# Adds what tests, lint and documents need to the virtual environment named by the first argument.
set -eu
venv=$1

echo "installing what tests need into $venv" >&2
sh "$(dirname "$0")/install_locked.sh" "$venv" dev
sh "$(dirname "$0")/prometheus.sh" "$venv/bin"
