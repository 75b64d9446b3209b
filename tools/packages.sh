#!/bin/sh
# Installs those of the named Debian packages that are missing, if it may; otherwise prints the command that does.
set -eu

command -v dpkg-query >/dev/null 2>&1 || exit 0
missing=
for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "these packages are missing, and what needs them is skipped: sudo apt-get install --no-install-recommends$missing" >&2
    exit 0
fi
apt-get update -qq
available=
absent=
for package in $missing; do
    if [ -n "$(apt-cache show "$package" 2>/dev/null)" ]; then
        available="$available $package"
    else
        absent="$absent $package"
    fi
done
[ -z "$absent" ] || echo "this distribution does not have these packages, and what needs them is skipped:$absent" >&2
[ -n "$available" ] || exit 0
echo "installing$available" >&2
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $available >/dev/null
