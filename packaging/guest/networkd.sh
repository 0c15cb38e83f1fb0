# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The guest with systemd-networkd: units reloaded, failing and stopped; trials; upgrade, removal and purge beneath connections.
try "the network is up, whose file names a controller" has 'e.*routable *configured' networkctl --no-pager --no-legend
named() { has '203.0.113.0/24.*congctl fast' ip route; }
try "with that" named

try "a new networkd" systemctl restart systemd-networkd
try "loses what was used, as is told" soon both_lost
try "reload" systemctl reload asymcc@quick
try "gives it back" kept
from_page operating.md 'mkdir -p /etc/systemd/networkd' 'systemctl restart' >/tmp/leave.sh
try "a networkd that leaves routes of others alone" sh /tmp/leave.sh
sleep 20 # it sets all up anew meanwhile
try "keeps the controller of its own route" named
[ "$(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p')" -lt 257 ] && then=both_lost || then=kept
try "and those of others, from 257 on" $then
try "reload" systemctl reload asymcc@quick
try "gives them back" kept

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
thins() { asymcc show thin --cgroup $downloads | grep -E "$1"; }
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
asymcc load ctcp >/dev/null
asymcc use ctcp --route 192.0.2.0/24 >/dev/null
asymcc thin --cgroup /sys/fs/cgroup/user.slice >/dev/null
try "another by hand" has 'congctl ctcp' ip route
asymcc load vegas95 >/dev/null
trial() { timeout -s KILL "$1" asymcc try vegas95 --route 203.0.113.128/25 --before 0 --json --seconds "$2" | tr -d '\n'; }
try "a trial, whose guard is a timer of systemd" has '"guard": "systemd".*"as_before": true' trial 60 1
try "which is gone with it" not has asymcc-try systemctl list-units --all --no-legend
trial 15 20 >/dev/null 2>&1
try "one that is killed may be ended" asymcc try vegas95 --end
try "with its timer, which would end a later one" not has asymcc-try systemctl list-units --all --no-legend
trial 15 20 >/dev/null 2>&1
try "one that is killed is still in effect" has 'congctl vegas95' ip route
try "and told" has 'a timer of systemd sees to its end' asymcc status
for _ in $(seq 60); do
	has 'congctl vegas95' ip route >/dev/null || break
	sleep 1
done
try "and ended by its timer" not has 'congctl vegas95' ip route
try "which leaves nothing" not grep -rq vegas95 /run/asymcc/try-vegas95
mkdir /sys/fs/cgroup/shared
try "a share of the connections of a cgroup" asymcc use vegas95 --cgroup /sys/fs/cgroup/shared --share 50% --stop-if-worse 20%
try "is told" has "vegas95 is given to 50% of new connections in /sys/fs/cgroup/shared" asymcc status
socat -u TCP-LISTEN:9002,bind=127.0.0.1,fork OPEN:/dev/null &
served=$!
(
	echo $BASHPID >/sys/fs/cgroup/shared/cgroup.procs
	for _ in $(seq 30); do head -c 100000 /dev/zero | socat -u STDIN TCP:127.0.0.1:9002; done
)
try "and both groups are counted" has 'ended: [1-9][0-9]* with it, [1-9][0-9]* without' asymcc status
kill $served
asymcc unload vegas95 --drain --seconds 0 >/dev/null
# --- a container in a slice, as Docker starts it ----------------------------------------------------------------------

from_page operating.md 'mkdir -p /etc/systemd/system/asymcc@' 'systemctl enable' | sed s/fast/cubic9438/g >/tmp/slice.sh
try "a unit for a slice" sh /tmp/slice.sh
mkdir -p /tmp/bundle/rootfs
(cd /tmp/bundle && runc spec)
binds=$(for there in usr bin sbin lib lib64; do
	[ -e /$there ] && printf '{"destination": "/%s", "source": "/%s", "type": "none", "options": ["rbind", "ro"]}, ' $there $there
done)
sed -i -e 's/"terminal": true/"terminal": false/' -e "s|\"sh\"|\"socat\", \"-u\", \"TCP:127.0.0.1:9001\", \"STDOUT\"|" \
	-e 's|"type": "network"|"type": "network", "path": "/proc/1/ns/net"|' -e "s|\"mounts\": \[|\"mounts\": [$binds|" \
	-e 's|"linux": {|"linux": {"cgroupsPath": "bulk.slice:docker:one",|' /tmp/bundle/config.json
socat -u PIPE TCP-LISTEN:9001,bind=127.0.0.1 &
served=$!
runc --systemd-cgroup run --bundle /tmp/bundle one >/tmp/one 2>&1 </dev/null &
contained() { has '\bcubic9438\b' ss -tinH dport = :9001; }
try "a container's first connection has the controller" soon contained
try "in a scope of the slice" [ -d /sys/fs/cgroup/bulk.slice/docker-one.scope ]
try "whom status tells" has 'cgroup /sys/fs/cgroup/bulk.slice' asymcc status
runc kill one KILL
kill $served # whose end of the connection would keep the default's program
try "stop" systemctl disable --now asymcc@cubic9438
try "takes it back" not registered cubic9438

# --- upgrade, removal and purge, beneath a connection ---------------------------------------------------------------

# Its sender has the default, and its receiver is in a cgroup that is thinned: this script is in system.slice.
sent() { ss -tinH dst 198.19.0.2 dport = :9000 | sed -n 's/.*bytes_acked:\([0-9]*\).*/\1/p'; }
goes_on() { # 100 kB more
	local before
	before=$(sent)
	more() { [ "$(sent)" -gt $((before + 100000)) ]; }
	soon more
}
has_fast() { has '\bfast\b' ss -tinH dst 198.19.0.2 dport = :9000; }

try "the packages" apt-get update
this=$(asymcc --version)
try "an older package" apt-get install -y --allow-downgrades "asymcc=$(apt-cache madison asymcc | awk '$3 ~ /~/ { print $3 }')"
try "which it is" [ "$(asymcc --version)" != "$this" ]
try "is in service" systemctl restart asymcc@fast asymcc@quick asymcc-thin
old=$(program fast)
ip netns add far
ip link add near type veth peer name far netns far
ip addr add 198.19.0.1/24 dev near
ip -n far addr add 198.19.0.2/24 dev far
ip link set near up
ip -n far link set far up
tc qdisc add dev near root tbf rate 1mbit burst 3028 limit 60000
head -c 40M /dev/urandom >/dev/shm/data
ip netns exec far socat -u TCP-LISTEN:9000 CREATE:/dev/shm/got &
receiver=$!
sleep 2
socat -u FILE:/dev/shm/data TCP:198.19.0.2:9000 &
sender=$!
try "a long connection" goes_on
try "whose controller is of the older package" has_fast
try "and whose ACKs are judged, few of which can be spared at this rate" soon thins 'acks_sent +[1-9]'

try "apt upgrade" apt-get upgrade -y
try "to this one" [ "$(asymcc --version)" = "$this" ]
try "leaves what was loaded" [ "$(program fast)" = "$old" ]
try "the default" is $default fast
try "ACKs thinned" thins 'max_packets +4\b'
try "and the connection goes on" goes_on
try "reload" systemctl reload asymcc@fast asymcc@quick asymcc-thin
try "puts this build in its place" [ "$(program fast)" != "$old" ]
try "and is still the default" is $default fast
try "and the connection goes on" goes_on

cp /usr/sbin/asymcc /root/asymcc
try "remove" apt-get remove -y asymcc
try "stops: the default" is $default cubic
try "the route" not has congctl ip route
try "and leaves no struct_ops" not grep -qE '\b(fast|quick|ctcp)\b' /proc/sys/net/ipv4/tcp_available_congestion_control
try "nor thinning" unthinned /root/asymcc
try "the connection goes on" goes_on
try "as fast" has_fast
rm /etc/NetworkManager/dispatcher.d/50-asymcc # which is not the package's
try "purge" apt-get purge -y asymcc
leavings() { find / -xdev -path /proc -prune -o -path /var/cache -prune -o -path /root -prune -o -path /var/log -prune -o -name '*asymcc*' -print; ls -d /run/asymcc 2>/dev/null; }
nothing() { "$@" | tee /dev/stderr | not grep -q .; }
try "leaves nothing" nothing leavings
try "and the connection goes on" goes_on
tc qdisc del dev near root
try "to its end" wait $sender
try "which arrives" wait $receiver
try "whole" cmp /dev/shm/data /dev/shm/got
gone() { not has 'struct_ops|sock_ops|thin_|asymcc' bpftool prog list && not has struct_ops bpftool map list; }
try "and nothing is left in the kernel" soon gone
