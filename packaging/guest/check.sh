#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In a guest of ../check.sh: the units at boot, then the script of the manager that sets up the network.
set -u
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
default=/proc/sys/net/ipv4/tcp_congestion_control
manager=$(sed 's/.*check=\([^ ]*\).*/\1/' /proc/cmdline)

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
soon() { # within a minute
	for _ in $(seq 60); do
		"$@" && return
		sleep 1
	done
	return 1
}
not() { ! "$@"; }
registered() { asymcc list | grep -Eq "^$1 +[^ ]+ +[^ -]"; }
is() { [ "$(cat "$1")" = "$2" ]; }
has() { "${@:2}" | grep -E -- "$1"; }
journal() { journalctl -b --no-pager -o cat "$@"; }

. /root/guest/page.sh

# Routes of `quick`, as connections take them: one that asymcc made, and one of the manager's own that was given it.
made() { has '198.51.100.0/24.*congctl quick' ip route get fibmatch 198.51.100.9; }
given() { has '198.18.0.0/24.*congctl quick' ip route get fibmatch 198.18.0.9; }
kept() { made && given; }
lost() { asymcc list | grep "^quick .*lost: route $1" && asymcc doctor | grep "^bad *quick *route $1 .*has it no more"; }
both_lost() { lost 198.51.100.0/24 && lost 198.18.0.0/24; }
program() { asymcc list | sed -n "s/^$1 .* yes *\([0-9]*\) .*/\1/p"; }

when() { systemctl show -p "${1#*:}TimestampMonotonic" --value "${1%:*}"; } # UNIT:ActiveEnter or InactiveExit, in us since boot
in_order() { [ "$(when "$1")" -gt 0 ] && [ "$(when "$1")" -le "$(when "$2")" ]; }

say "$(uname -r), systemd $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p'), $manager, $(asymcc --version)"
for unit in asymcc@fast asymcc@quick asymcc-thin; do
	for _ in $(seq 600); do # it waits for the network; we do not for it
		systemctl is-active -q $unit || systemctl is-failed -q $unit && break
		sleep 1
	done
	try "$unit starts at boot" systemctl is-active $unit
done
try "the controller is loaded before the network" in_order asymcc-load@quick.service:ActiveEnter network-pre.target:ActiveEnter
try "and given when it is there" in_order network-online.target:ActiveEnter asymcc@quick.service:InactiveExit
# ifupdown's post-up may have begun a reload, which takes all back for a moment.
try "its USE: the default" soon is $default fast
try "the other's: routes" soon kept
try "which its journal tells" has '^quick is used on route 198.51.100.0/24 \(made for it\)' journal -u asymcc@quick
try "no unit warns" not has . journal -q -p warning -u 'asymcc*'
try "LOAD" has 'alpha .*\b50\b' asymcc show fast
try "OBJECT, and its own LOAD" has 'pacing .*\b1\b' asymcc show quick
try "default remembered" has . ls /run/asymcc
. "/root/guest/$manager.sh"
say passed
