#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# packages.sh LOG SERVICES PACKAGE...: installs what is missing, as root through apt; else it says which line does it. Run by
# make.
#
# SERVICES: of packages that shall not serve this machine because of a test, as PACKAGE:SERVICE. One that is new is stopped,
# and not started again.
set -eu -o pipefail
log=$1 services=$2
shift 2

# apt serves one at a time. A service that it starts would keep the lock.
exec 9>"$log.lock" && flock 9

there() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing=() new=()
for package; do there "$package" || missing+=("$package"); done
for one in $services; do there "${one%:*}" || new+=("${one#*:}"); done
[ ${#missing[@]} -gt 0 ] || exit 0

line=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" != 0 ]; then
	echo "missing packages; run: sudo apt-get update && sudo ${line[*]}"
	exit 1
fi
echo "installing ${missing[*]}"
code=0
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive "${line[@]}"; } >"$log" 2>&1 9>&- || code=$?
for service in "${new[@]}"; do
	systemctl -q disable "$service" "$service.socket"
	service "$service" stop
done >/dev/null 2>&1 || true
if [ $code != 0 ]; then
	tail -n 5 "$log"
	echo "installing failed: $log"
	exit 1
fi
