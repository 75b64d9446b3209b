#!/bin/sh
# Runs inside the new system: builds the kernel module in /tmp/module, installs it, and removes the compiler.
set -eu
release=$(ls /usr/lib/modules)
compiler=/tmp/compiler
PATH=$compiler/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin
LD_LIBRARY_PATH=$(echo $compiler/usr/lib/*-linux-gnu)
export PATH LD_LIBRARY_PATH
# The headers name each other by these paths.
mkdir -p /usr/src
ln -s "$compiler"/usr/src/* /usr/src/
ln -s "$compiler"/usr/lib/linux-kbuild-* /usr/lib/
make -s -C "/usr/src/linux-headers-$release" M=/tmp/module modules
strip --strip-debug /tmp/module/railbed_dcb.ko
mkdir -p "/usr/lib/modules/$release/extra"
cp /tmp/module/railbed_dcb.ko "/usr/lib/modules/$release/extra/"
echo railbed_dcb >/etc/modules-load.d/railbed-dcb.conf
rm -r /usr/src/linux-* /usr/lib/linux-kbuild-* "$compiler" /tmp/module
