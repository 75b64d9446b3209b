#!/bin/sh
# Runs in mmdebstrap's hook, with the root of the new system as $1 and its architecture as $2.
# Writes dpkg's database as if dpkg had unpacked what is extracted, so that `dpkg --configure -a` can finish it: dpkg
# itself would run scripts of packages, and their interpreters are programs for another processor.
set -eu
info=$1/var/lib/dpkg/info
mkdir -p "$info"
echo 1 >"$info/format"
for package in "$1"/var/cache/apt/archives/*.deb; do
    name=$(dpkg-deb --field "$package" Package)
    [ "$(dpkg-deb --field "$package" Multi-Arch)" != same ] || name=$name:$2
    dpkg-deb --control "$package" "$info/new"
    {
        cat "$info/new/control"
        echo "Status: install ok unpacked"
        [ ! -e "$info/new/conffiles" ] || sed -n '1i Conffiles:
s|^/.*| & newconffile|p' "$info/new/conffiles"
        echo
    } >>"$1/var/lib/dpkg/status"
    rm "$info/new/control"
    for file in "$info/new"/*; do
        [ ! -e "$file" ] || mv "$file" "$info/$name.${file##*/}"
    done
    rmdir "$info/new"
    dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's|^\./$|/.|; s|^\.||; s|\(.\)/$|\1|' >"$info/$name.list"
done
