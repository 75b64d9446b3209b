#!/bin/sh
# The first process of an image for another processor: sets up the packages, which are only extracted.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
exec </dev/null >/dev/console 2>&1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
# Keeps packages from starting their services.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# Compiling the hardware database takes minutes, and an image has none.
rm -f /usr/lib/udev/hwdb.d/*
# Every node gets a host key of its own; generating one here would take minutes too.
touch /etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_ed25519_key
# Of all scripts that run before a first unpacking, only these have an effect.
if sh /var/lib/dpkg/info/base-passwd.preinst install &&
    sh /var/lib/dpkg/info/python3.11-minimal.preinst install &&
    dpkg --configure -a; then
    echo "railbed: packages are set up"
fi
rm /usr/sbin/policy-rc.d /finish-packages.sh
find / -xdev -type f -perm /6000 -printf '%m %P\n' >/special-modes
mount -o remount,ro / || sync
busybox poweroff -f
