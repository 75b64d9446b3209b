#!/bin/sh
# Installs what the named lock files list (requirements/NAME.txt, or - for standard input) into the virtual environment
# named by the first argument. pip refuses every file with another SHA-256, and runs no program of a package to build it.
set -eu
venv=$1
shift
names="$*"
set --
for name in $names; do
    case $name in
    -) set -- "$@" --requirement /dev/stdin ;;
    *) set -- "$@" --requirement "$(dirname "$0")/../requirements/$name.txt" ;;
    esac
done
# Compiling every module takes longer than installing it; Python compiles those that it loads.
exec "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile \
    --require-hashes --only-binary :all: "$@"
