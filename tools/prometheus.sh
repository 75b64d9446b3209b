#!/bin/sh
# Puts prometheus and promtool, which only tests need, into the folder named by the first argument. Debian's package is
# unpacked, not installed: installing it would start a server, and only root could.
set -eu
folder=$1

skip() {
    echo "$1, so the tests that need prometheus and promtool are skipped: install both" >&2
    exit 0
}

if [ -x "$folder/prometheus" ] && [ -x "$folder/promtool" ]; then exit 0; fi
if command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; then exit 0; fi
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || skip "apt-get and dpkg-deb are missing"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get download -qq prometheus >/dev/null 2>&1); }
if ! download && ! { [ "$(id -u)" = 0 ] && apt-get update -qq && download; }; then
    skip "Debian's package prometheus cannot be downloaded"
fi
dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/prometheus ./usr/bin/promtool
mv "$work/usr/bin/prometheus" "$work/usr/bin/promtool" "$folder/"
