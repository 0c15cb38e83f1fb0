# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The guest with NetworkManager: what it takes away, and the dispatcher script of docs/operating.md, which gives it back.
id=$(program quick)
for command in "nmcli connection up wired" "nmcli device disconnect ens17" "nmcli device connect ens17"; do
	try "$command" $command
done
try "the dispatcher script gives the routes back" soon kept
try "and the program is the same" [ "$(program quick)" = "$id" ]

rm /etc/NetworkManager/dispatcher.d/50-asymcc
try "without it: a reapplied device" nmcli device reapply ens17
try "keeps both routes" kept
try "a new NetworkManager" systemctl restart NetworkManager
try "is online" nm-online -q
try "and keeps both routes" kept
try "a connection that is set up anew" nmcli connection up wired
try "loses both routes, as is told" soon both_lost
try "reload" systemctl reload asymcc@quick
try "gives them back" kept
