#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Process 1 of a small system: busybox, a static asymcc and its init script. The path's tools are in /rig, none of its own.
#
# It downloads over an uplink of 60 kbit/s, without thinning, with it as the init script starts it, and again without.
# Then a host behind it does, which it routes: without BTF, as on OpenWrt.
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
# netem counts the 14 bytes of Ethernet, too.
rig tc qdisc add dev here root netem delay 20ms rate 60kbit limit 100
rigfar tc qdisc add dev there root netem delay 20ms rate 10mbit limit 100
mkdir /www
dd if=/dev/zero of=/www/file bs=1M count=4 2>/dev/null
far httpd -h /www

# download WHAT PREFIX...
download() {
	what=$1
	shift
	acks=$(cat /sys/class/net/here/statistics/tx_packets)
	began=$(cut -d' ' -f1 /proc/uptime)
	"$@" wget -q -O /dev/null http://192.0.2.2/file || echo "FAILED: wget"
	ended=$(cut -d' ' -f1 /proc/uptime)
	echo "RESULT $what from $began to $ended packets $(($(cat /sys/class/net/here/statistics/tx_packets) - acks))"
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

# The host behind it is a namespace, too.
unshare -n sleep 100000 &
HOST=$!
sleep 1
host() { nsenter -t $HOST -n -- "$@"; }
rig ip link add lan gso_max_segs 1 type veth peer name wan gso_max_segs 1 netns $HOST
ip addr add 198.51.100.1/24 dev lan
ip link set lan up
host ip addr add 198.51.100.2/24 dev wan
host ip link set wan up
host ip route add default via 198.51.100.1
far ip route add 198.51.100.0/24 via 192.0.2.1
echo 1 >/proc/sys/net/ipv4/ip_forward
download routed host
asymcc thin --dev here --reverse 60kbit --overhead 14 || echo "FAILED: thin --dev"
download routed-thinned host
asymcc thin --off --dev here || echo "FAILED: thin --off --dev"
download routed-after host
dmesg | grep -iE 'bug|oops|warn'
echo END
reboot -f
