#!/bin/sh
# Runs in mmdebstrap's hook, with the root of the new system as $1 and the source of the kernel module as $2.
# Extracts a compiler and the kernel's headers to /tmp/compiler of the new system, without installing them, and copies the
# source to /tmp/module; build-module.sh uses and removes both.
set -eu
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
compiler=$1/tmp/compiler
mkdir -p "$compiler/packages/partial" "$compiler/usr/lib"
ln -s usr/lib "$compiler/lib"
apt-get install --yes --no-install-recommends --download-only -o "Dir::Cache::Archives=$compiler/packages" \
    gcc-12 make "linux-headers-$(ls "$1/usr/lib/modules")"
for package in "$compiler"/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$compiler"
done
rm -r "$compiler/packages"
mkdir "$1/tmp/module"
cp "$2"/* "$1/tmp/module/"
