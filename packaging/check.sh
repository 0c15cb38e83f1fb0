#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# check.sh DEB OLDER [SUITE...]: the package on clean systems, Debian 12 and 13, from installation to purge. Run by
# `make check-package`. OLDER is an earlier build of it, from which the guest upgrades.
#
# A system is made with mmdebstrap: what purge leaves is compared there. Then it boots in QEMU with its own kernel, its units
# enabled, once for each of MANAGERS, and the scripts in guest/ see them work. A few minutes each; neither root nor KVM is needed.
# MANAGERS=docker, on Debian 13 alone, is networkd's network and Docker.
set -eu -o pipefail
deb=$(realpath "$1") older=$(realpath "$2")
shift 2
cd "$(dirname "$0")"
: "${MANAGERS:=networkd NetworkManager ifupdown}"
lintian --fail-on error --allow-root "$deb"

[ $# -gt 0 ] || set -- bookworm trixie
declare -A docker=([trixie]=,docker.io,docker-cli,busybox-static)
[[ " $MANAGERS " = *" docker "* ]] || docker=()
declare -A slot=([networkd]=0x10 [docker]=0x10 [NetworkManager]=0x11 [ifupdown]=0x12) # a network device's slot gives its name: ens16 and so on
declare -A units=([networkd]="systemd-networkd systemd-networkd-wait-online" [NetworkManager]="NetworkManager NetworkManager-wait-online"
	[ifupdown]="networking ifup@ens18" [docker]="docker containerd")

for suite; do
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cat >"$work/hook" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run/systemd -o -path /var/cache -o -path /var/lib/apt \
	-o -path /var/log -o -path /var/lib/dpkg \) -prune -o -print | sort; }
apt-get satisfy -y --no-install-recommends "$(dpkg-deb -f /tmp/asymcc.deb Depends)" >/dev/null 2>&1 # what it depends on shall not count
files >/tmp/before
apt-get install -y --no-install-recommends /tmp/asymcc.deb >/dev/null
[ -z "$(dpkg --verify asymcc)" ]
asymcc --version
man --warnings=w asymcc >/tmp/page 2>/tmp/warnings
grep -q 'asymcc load' /tmp/page && [ ! -s /tmp/warnings ]
[ "$(bash -c '. /usr/share/bash-completion/completions/asymcc; COMP_WORDS=(asymcc unl); COMP_CWORD=1; _asymcc; echo $COMPREPLY')" = unload ]
systemd-analyze verify 'asymcc@fast.service'
echo 'LOAD="--set alpha=50"' >/etc/asymcc/fast.conf
systemctl -q enable asymcc@fast
apt-get remove -y asymcc >/dev/null
[ -e /etc/asymcc/NAME.conf.example ] && [ ! -e /usr/sbin/asymcc ]
apt-get purge -y asymcc >/dev/null
files >/tmp/after
diff /tmp/before /tmp/after
apt-get install -y --no-install-recommends /tmp/asymcc.deb >/dev/null

# what boots: each manager of networks has a device of its own, which the other two leave alone
cat >/etc/systemd/network/all.network <<EOT
[Match]
Name=ens16
[Network]
Address=192.0.2.1/24
Gateway=192.0.2.2
[Route]
Destination=203.0.113.0/24
Gateway=192.0.2.2
TCPCongestionControlAlgorithm=fast
[Route]
Destination=198.18.0.0/24
Gateway=192.0.2.2
EOT
cat >/etc/NetworkManager/system-connections/wired.nmconnection <<EOT
[connection]
id=wired
type=ethernet
interface-name=ens17
[ipv4]
method=manual
address1=192.0.2.1/24,192.0.2.2
route1=198.18.0.0/24,192.0.2.2
EOT
chmod 600 /etc/NetworkManager/system-connections/wired.nmconnection
cat >/etc/network/interfaces <<EOT
auto lo
iface lo inet loopback
allow-hotplug ens18
iface ens18 inet static
	address 192.0.2.1/24
	gateway 192.0.2.2
	up ip route add 198.18.0.0/24 via 192.0.2.2
	up ip route add 203.0.113.0/24 via 192.0.2.2 congctl fast
EOT
. /root/guest/page.sh
from_page operating.md 'cat >/etc/NetworkManager' 'chmod 755' | sh
from_page operating.md post-up post-up >>/etc/network/interfaces
cat >/etc/asymcc/fast.conf <<EOT
LOAD="--set alpha=50"
USE="--default"
EOT
cat >/etc/asymcc/quick.conf <<EOT
OBJECT=fast
LOAD="--set alpha=20 --set pacing=1"
USE="--route 198.51.100.0/24 --route 198.18.0.0/24"
EOT
cat >/etc/asymcc/thin.conf <<EOT
THIN="--cgroup /sys/fs/cgroup/system.slice --reverse 200kbit --max 8"
EOT
mkdir -p /etc/docker
echo '{"bridge": "none", "iptables": false, "data-root": "/run/docker-data", "storage-driver": "vfs"}' >/etc/docker/daemon.json
cat >/etc/systemd/system/check.service <<EOT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /root/guest/check.sh
StandardOutput=journal+console
StandardError=journal+console
ExecStopPost=systemctl poweroff --no-block
[Install]
WantedBy=default.target
EOT
systemctl -q enable systemd-networkd NetworkManager networking asymcc@fast asymcc@quick asymcc-thin check.service
echo 'deb [trusted=yes] file:/root/packages ./' >/etc/apt/sources.list
cp /boot/vmlinuz-* /tmp/vmlinuz && cp /boot/initrd.img-* /tmp/initrd
rm -rf /var/lib/apt/lists/* # the image has little room
END
	mkdir "$work/packages"
	cp "$deb" "$older" "$work/packages"
	(cd "$work/packages" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
	mmdebstrap --quiet --variant=minbase --format=ext2 \
		--include=systemd-sysv,dbus,linux-image-cloud-amd64,iproute2,man-db,bash-completion,network-manager,ifupdown,runc,socat,bpftool${docker[$suite]:-} \
		--customize-hook="copy-in $work/hook $work/packages guest ../docs/operating.md /root" \
		--customize-hook="upload $deb /tmp/asymcc.deb" \
		--customize-hook='chroot "$1" sh /root/hook' \
		--customize-hook="download /tmp/vmlinuz $work/vmlinuz" --customize-hook="download /tmp/initrd $work/initrd" \
		--customize-hook='rm -f "$1"/tmp/*' \
		"$suite" "$work/root.ext2"
	for manager in $MANAGERS; do
		masked=
		for other in "${!units[@]}"; do
			[[ $manager = "$other" || $manager+$other = docker+networkd ]] || masked+=$(printf ' systemd.mask=%s.service' ${units[$other]})
		done
		rm -f "$work/console"
		TIMEFORMAT="$suite, $manager: %U s of CPU"
		time timeout 3600 qemu-system-x86_64 -accel tcg -cpu max -m 1024 -display none -no-reboot -nodefaults -snapshot \
			-netdev user,id=net,restrict=on -device "virtio-net-pci,netdev=net,addr=${slot[$manager]}" \
			-kernel "$work/vmlinuz" -initrd "$work/initrd" \
			-append "root=/dev/vda rw console=ttyS0 quiet mitigations=off panic=-1 check=$manager$masked" \
			-drive "file=$work/root.ext2,format=raw,if=virtio" -serial "file:$work/console" || true
		grep -a 'check: ' "$work/console" || { tail -n 40 "$work/console"; }
		grep -aq 'check: passed' "$work/console" || { echo "$suite, $manager: failed"; exit 1; }
		echo "$suite, $manager: passed"
	done
	rm -rf "$work"
done
