# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The guest with ifupdown: what it takes away, and the line of docs/operating.md, which gives it back.
try "a route of its own that names a controller" has '203.0.113.0/24.*congctl fast' ip route
id=$(program quick)
try "ifdown" ifdown ens18
try "ifup" ifup ens18
try "post-up gives the routes back" soon kept
try "and the program is the same" [ "$(program quick)" = "$id" ]

sed -i /post-up/d /etc/network/interfaces
try "without that line: ifdown" ifdown ens18
try "loses both routes, as is told" both_lost
try "ifup" ifup ens18
try "gives none back" both_lost
try "reload" systemctl reload asymcc@quick
try "does" kept
