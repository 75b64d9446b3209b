#!/bin/sh
# Runs in mmdebstrap's hook, with the root of the new system as $1 and the name of the kernel's metapackage as $2.
# Unpacks the kernel without installing it: its scripts need tools that make an initrd, which we make ourselves.
set -eu
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
package=$(apt-cache depends "$2" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
mkdir "$1/tmp/kernel"
cd "$1/tmp/kernel"
apt-get download "$package"
# /lib is a link to usr/lib; without the option tar would put a folder in its place.
dpkg --fsys-tarfile "$package"*.deb | tar -x --keep-directory-symlink -C "$1"
rm -r "$1/tmp/kernel"
