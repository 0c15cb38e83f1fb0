#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest of check.sh: units at boot, reloaded, failing, stopped; upgrade, removal and purge beneath them.
set -u
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
default=/proc/sys/net/ipv4/tcp_congestion_control

say() { echo "check: $*"; }
try() {
	local what=$1
	shift
	if "$@" >/tmp/out 2>&1; then
		say "ok: $what"
	else
		say "FAILED: $what: $*"
		sed 's/^/check:   /' /tmp/out
		journalctl -b --no-pager -n 15 -u 'asymcc@*' -u asymcc-thin | sed 's/^/check:   /'
		exit 1
	fi
}
not() { ! "$@"; }
registered() { asymcc list | grep -Eq "^$1 +[^ ]+ +[^ -]"; }
is() { [ "$(cat "$1")" = "$2" ]; }
has() { "${@:2}" | grep -Eq -- "$1"; }

say "$(uname -r), systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), $(asymcc --version)"
for unit in asymcc@fast asymcc@quick asymcc-thin; do
	for _ in $(seq 600); do # it waits for the network; we do not for it
		systemctl is-active -q $unit || systemctl is-failed -q $unit && break
		sleep 1
	done
	try "$unit starts at boot" systemctl is-active $unit
done
try "the network is up, whose file names a controller" has 'e.*routable *configured' networkctl --no-pager --no-legend
try "with that" has '203.0.113.0/24.*congctl fast' ip route
try "its USE: the default" is $default fast
try "the other's: a route" has '198.51.100.0/24.*congctl quick' ip route
try "LOAD" has 'alpha .*\b50\b' asymcc show fast
try "OBJECT, and its own LOAD" has 'pacing .*\b1\b' asymcc show quick
try "default remembered" has . ls /run/asymcc

in_use() { has '198.51.100.0/24.*congctl quick' ip route; }
told() { asymcc list | grep 'lost: route 198.51.100.0/24' && asymcc doctor | grep 'bad *quick .*has it no more'; }
systemctl restart systemd-networkd
sleep 20
in_use && say "a route that was made outlives systemd-networkd" || try "a route that was made is lost with systemd-networkd, and told" told
try "reload" systemctl reload asymcc@quick
try "gives it back" in_use

sed -i s/alpha=50/alpha=60/ /etc/asymcc/fast.conf
try "reload" systemctl reload asymcc@fast
try "has the new value" has 'alpha .*\b60\b' asymcc show fast
try "and is still the default" is $default fast

sed -i s/alpha=60/alpha=oops/ /etc/asymcc/fast.conf
try "a reload that cannot be fails" not systemctl reload asymcc@fast
try "and leaves what was" has 'alpha .*\b60\b' asymcc show fast
try "in service" systemctl is-active asymcc@fast
sed -i s/alpha=oops/alpha=50/ /etc/asymcc/fast.conf

echo 'USE="--route nonsense"' >/etc/asymcc/ctcp.conf
try "what cannot be used does not start" not systemctl start asymcc@ctcp
try "nor stay loaded" not registered ctcp
asymcc load ctcp --set gamma=20 >/dev/null
try "what others loaded with other values is not started" not systemctl start asymcc@ctcp
try "nor unloaded" registered ctcp
asymcc unload ctcp >/dev/null
rm /etc/asymcc/ctcp.conf
systemctl reset-failed asymcc@ctcp
try "without a conf" systemctl start asymcc@vegas95
try "a controller is loaded" registered vegas95
try "stop" systemctl stop asymcc@vegas95
try "and it is not" not registered vegas95

downloads=/sys/fs/cgroup/system.slice
unthinned() { "$1" show thin --cgroup $downloads 2>&1 | grep 'no ACKs are thinned there'; }
thins() { asymcc show thin | grep -E "$1"; }
try "ACKs are thinned, where THIN says" asymcc show thin --cgroup $downloads
try "as it says" thins 'max_packets +8\b'
sed -i 's/--max 8/--max 4/' /etc/asymcc/thin.conf
try "reload of thinning" systemctl reload asymcc-thin
try "has the new value" thins 'max_packets +4\b'
sed -i 's/--max 4/--max oops/' /etc/asymcc/thin.conf
try "a reload of it that cannot be fails" not systemctl reload asymcc-thin
try "and leaves what was there" thins 'max_packets +4\b'
sed -i 's/--max oops/--max 4/' /etc/asymcc/thin.conf
try "stop of thinning" systemctl stop asymcc-thin
try "and no ACK is thinned" unthinned asymcc
try "thinning starts again" systemctl start asymcc-thin

try "stop of the default" systemctl stop asymcc@fast
try "which is what it was" is $default cubic
try "start again" systemctl start asymcc@fast
try "upgrade" dpkg -i /root/asymcc.deb
try "leaves it loaded" is $default fast
try "and ACKs thinned" thins 'max_packets +4\b'

asymcc load ctcp >/dev/null
asymcc use ctcp --route 192.0.2.0/24 >/dev/null
asymcc thin --cgroup /sys/fs/cgroup/user.slice >/dev/null
try "another by hand" has 'congctl ctcp' ip route
asymcc load vegas95 >/dev/null
trial() { timeout -s KILL "$1" asymcc try vegas95 --route 203.0.113.128/25 --before 0 --json --seconds "$2" | tr -d '\n'; }
try "a trial, whose guard is a timer of systemd" has '"guard": "systemd".*"as_before": true' trial 60 1
try "which is gone with it" not has asymcc-try systemctl list-units --all --no-legend
trial 15 20 >/dev/null 2>&1
try "one that is killed is still in effect" has 'congctl vegas95' ip route
try "and told" has 'a timer of systemd sees to its end' asymcc status
for _ in $(seq 60); do
	has 'congctl vegas95' ip route >/dev/null || break
	sleep 1
done
try "and ended by its timer" not has 'congctl vegas95' ip route
try "which leaves nothing" not grep -rq vegas95 /run/asymcc/try-vegas95
try "a share of the connections of a cgroup" asymcc use vegas95 --cgroup /sys/fs/cgroup/user.slice --share 10% --stop-if-worse 20%
try "is told" has "vegas95 is given to 10% of new connections in /sys/fs/cgroup/user.slice" asymcc status
asymcc unload vegas95 --drain --seconds 0 >/dev/null
cp /usr/sbin/asymcc /root/asymcc
try "remove" apt-get remove -y asymcc
try "stops: the default" is $default cubic
try "the route" not has congctl ip route
try "and leaves no struct_ops" not grep -qE '\b(fast|quick|ctcp)\b' /proc/sys/net/ipv4/tcp_available_congestion_control
try "nor thinning" unthinned /root/asymcc
try "purge" apt-get purge -y asymcc
leavings() { find / -xdev -path /proc -prune -o -path /var/cache -prune -o -path /root -prune -o -path /var/log -prune -o -name '*asymcc*' -print; ls -d /run/asymcc 2>/dev/null; }
nothing() { "$@" | tee /dev/stderr | not grep -q .; }
try "leaves nothing" nothing leavings
say passed
