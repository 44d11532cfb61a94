#!/bin/sh
# Makes the file systems of the images: images.sh SUITE WORK DEBIAN JAVA
# WORK is an empty directory. DEBIAN and JAVA are the archives to write. Its mounts are in a namespace of its own.
set -eu
suite=$1 root=$2/root debian=$3 java=$4
pack() {
	tar -C "$root" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./dev/*' --exclude='./proc/*' \
		--exclude='./sys/*' -cf "$1.part" .
	mv "$1.part" "$1"
}
debootstrap --variant=minbase "$suite" "$root"
pack "$debian"
# In a chroot, not in a container: this machine's way to Debian's packages works there, and needs no container network.
mount -t proc proc "$root/proc" # the certificates of Java need it
chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c \
	'apt-get -qq update && apt-get -qq install -y --no-install-recommends openjdk-17-jre-headless'
umount "$root/proc"
pack "$java"
