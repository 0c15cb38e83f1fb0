#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Process 1 of a small system: busybox, a static asymcc and its init script. What builds the path is in /rig, and none of its own.
#
# It downloads over an uplink of 60 kbit/s, without thinning, with it as the init script starts it, and again without.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin
rig() { LD_LIBRARY_PATH=/rig /rig/ld.so --library-path /rig "/rig/$@"; }
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /run
mount -t cgroup2 none /sys/fs/cgroup
for module in veth sch_netem; do insmod /rig/$module.ko; done
grep -E 'MemTotal|MemAvailable' /proc/meminfo

# The far end is a namespace: process FAR keeps it.
unshare -n sleep 100000 &
FAR=$!
sleep 1
far() { nsenter -t $FAR -n -- "$@"; }
rigfar() { LD_LIBRARY_PATH=/rig nsenter -t $FAR -n -- /rig/ld.so --library-path /rig "/rig/$@"; }
rig ip link add here gso_max_segs 1 type veth peer name there gso_max_segs 1 netns $FAR
ip addr add 192.0.2.1/24 dev here
ip link set here up
far ip addr add 192.0.2.2/24 dev there
far ip link set there up
rig tc qdisc add dev here root netem delay 20ms rate 60kbit limit 100
rigfar tc qdisc add dev there root netem delay 20ms rate 10mbit limit 100
mkdir /www
dd if=/dev/zero of=/www/file bs=1M count=4 2>/dev/null
far httpd -h /www

download() {
	acks=$(cat /sys/class/net/here/statistics/tx_packets)
	began=$(cut -d' ' -f1 /proc/uptime)
	wget -q -O /dev/null http://192.0.2.2/file || echo "FAILED: wget"
	ended=$(cut -d' ' -f1 /proc/uptime)
	echo "RESULT $1 from $began to $ended packets $(($(cat /sys/class/net/here/statistics/tx_packets) - acks))"
}

download before
sh /etc/init.d/asymcc start || echo "FAILED: start"
asymcc list
cat /proc/sys/net/ipv4/tcp_congestion_control
download thinned
asymcc metrics | grep -E 'ack|thin' | grep -v '^#'
grep -E 'MemAvailable' /proc/meminfo
sh /etc/init.d/asymcc stop || echo "FAILED: stop"
asymcc list
download after
asymcc doctor
mount -t tmpfs none /sys/kernel/btf
asymcc thin
dmesg | grep -iE 'bug|oops|warn'
echo END
reboot -f
