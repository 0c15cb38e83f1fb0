#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Process 1 of a system with dpkg: the package comes, its controllers work, it goes.
/bin/busybox --install -s /sbin
ln -s busybox /bin/sh
export PATH=/usr/sbin:/usr/bin:/bin:/sbin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /run
mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up
/usr/bin/dpkg -i /asymcc.deb || echo "FAILED: dpkg -i"
/usr/bin/dpkg -s asymcc | grep -E '^(Status|Architecture|Depends)'
/usr/bin/dpkg --verify asymcc
asymcc doctor || echo "FAILED: doctor"
for name in $(asymcc list | awk 'NR > 1 { print $1 }'); do
	asymcc show "$name" | grep -q '^needs Linux' && continue
	asymcc load "$name" || echo "FAILED: load $name"
	asymcc unload "$name" --force || echo "FAILED: unload $name"
done
/usr/bin/dpkg -P asymcc || echo "FAILED: dpkg -P"
ls -d /usr/lib/asymcc /usr/sbin/asymcc /etc/asymcc
echo END
reboot -f
