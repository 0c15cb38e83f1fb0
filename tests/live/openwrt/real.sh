#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# real.sh SOURCES ROOT: OpenWrt's own scripts, and its uci, jshn, ubus and procd as programs of this machine, into ROOT.
# SOURCES has clones of OpenWrt's repositories openwrt, libubox, uci, ubus, procd and udebug. Needs busybox and libjson-c-dev.
set -eu
sources=$(realpath "$1") root=$2
files=$sources/openwrt/package/base-files/files
install -Dm 755 "$(command -v busybox)" "$root/usr/bin/sh"
install -Dm 755 "$files/etc/rc.common" "$root/etc/rc.common"
mkdir -p "$root"/usr/{sbin,lib/functions,lib/config,share/libubox} "$root"/etc/rc.d
cp -r "$files"/lib/functions{,.sh} "$root/usr/lib"
cp "$sources/openwrt/package/system/procd/files/procd.sh" "$root/usr/lib/functions"
cp "$sources/libubox/sh/jshn.sh" "$root/usr/share/libubox"
cp "$sources/openwrt/package/system/uci/files/lib/config/uci.sh" "$root/usr/lib/config"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$sources/libubox" "$work/libubox"
: >"$work/uci_config.h"
cat >"$work/missing.c" <<'END'
#include <stdio.h>
size_t strlcpy(char *to, const char *from, size_t size) { return snprintf(to, size, "%s", from); }
END
cd "$sources"
build() {
	gcc -O1 -w -std=gnu99 -D_GNU_SOURCE -DUBUS_MAX_MSGLEN=1048576 '-DRUNSTATEDIR="/var/run"' '-DUBUS_UNIX_SOCKET="/var/run/ubus.sock"' \
		'-DUBUSD_ACL_DIR="/usr/share/acl.d"' -I"$work" -I/usr/include/json-c -Iubus -Iudebug -Iprocd "$@"
}
for file in libubox/{avl,avl-cmp,base64,blob,blobmsg,blobmsg_json,json_script,kvlist,md5,runqueue,safe_list,udebug,udebug-remote,ulog}.c \
	libubox/{uloop,usock,ustream,ustream-fd,utils,vlist}.c ubus/libubus{,-acl,-io,-obj,-req,-sub}.c udebug/lib{,-pcap}.c "$work/missing.c"; do
	build -c -o "$work/$(echo "$file" | tr / _).o" "$file"
done
ar rc "$work/all.a" "$work"/*.o
program() { build -o "$root/usr/$1" "${@:2}" "$work/all.a" -ljson-c; }
program bin/jshn libubox/jshn.c
program sbin/uci uci/{cli,libuci,file,util,delta,parse}.c
program bin/ubus ubus/cli.c
program sbin/ubusd ubus/ubusd{_main,,_acl,_event,_id,_monitor,_obj,_proto}.c
program sbin/procd procd/{procd,signal,state,hotplug-dispatch,inittab,rcS,ubus,system,sysupgrade,watchdog}.c \
	procd/service/{service,instance,validate,trigger,watch}.c procd/utils/utils.c procd/plug/{coldplug,hotplug}.c
