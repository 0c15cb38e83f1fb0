# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The guest with Docker: what docs/operating.md says of a container's sysctl, and of a slice.
mkdir /tmp/image
cp "$(command -v busybox)" /tmp/image
try "dockerd is there" soon docker info
try "an image" sh -c 'tar -C /tmp/image -c . | docker import - tiny'

# start WORDS...: the container `one`, with a server; connected REGEX: a new connection of a process in it looks so.
start() { docker run -d --rm --name one --network none "$@" tiny /busybox httpd -f -p 9 -h /; }
inside() { nsenter -t "$(docker inspect -f '{{.State.Pid}}' one)" -n "$@"; }
connected() {
	docker exec one /busybox killall nc
	docker exec -d one /busybox sh -c '/busybox sleep 100 | /busybox nc 127.0.0.1 9'
	found() { has "$1" inside ss -tinH dport = :9; }
	soon found "$1"
}
end() {
	docker kill one
	gone() { not docker inspect one; }
	soon gone
}
default_is() { [ "$(inside cat $default)" = "$1" ]; }
by_sysctl="--sysctl net.ipv4.tcp_congestion_control=ctcp"
absent='tcp_congestion_control: no such file or directory'
refused() { not start $by_sysctl >/tmp/refused 2>&1 && has "$absent" cat /tmp/refused; }

try "a sysctl with a controller that is not loaded: no start" refused
asymcc load ctcp >/dev/null
try "one that is loaded: it starts" start $by_sysctl
try "its default" default_is ctcp
try "its connections" connected '\bctcp\b'
try "asymcc tells of it" has '^ctcp .*default of ' asymcc list
try "and does not unload it" not asymcc unload ctcp
try "but with --drain" asymcc unload ctcp --drain --seconds 0
try "the container goes on, with another" default_is cubic
try "as its connections" connected '\bcubic\b'
try "end" end
try "a new start fails" refused

asymcc load ctcp >/dev/null
try "again" start $by_sysctl
try "its connections" connected '\bctcp\b'
try "unload by force" asymcc unload ctcp --force
try "takes it from none of its connections" connected '\bctcp\b'
try "end" end
try "a new start fails" refused

from_page operating.md 'mkdir -p /etc/systemd/system/asymcc@' 'systemctl enable' | sed s/fast/cubic9438/g >/tmp/slice.sh
try "a unit for a slice" sh /tmp/slice.sh
try "a container in it" start --cgroup-parent bulk.slice
try "whose connections have its controller" connected '\bcubic9438\b'
try "end" end
