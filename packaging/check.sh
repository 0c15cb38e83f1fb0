#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# check.sh [SUITE...]: the package on clean systems, Debian 12 and 13, from installation to purge. Run by `make check-package`.
#
# A system is made with mmdebstrap: what purge leaves is compared there. Then it boots in QEMU with its own kernel, its units
# enabled, and check-guest.sh sees them work. A few minutes each; neither root nor KVM is needed.
set -eu -o pipefail
cd "$(dirname "$0")"
deb=$(ls -t ../build/asymcc_*.deb | head -n 1)
lintian --fail-on error --allow-root "$deb"

[ $# -gt 0 ] || set -- bookworm trixie
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

# what boots
cat >/etc/systemd/network/all.network <<EOT
[Match]
Name=e*
[Network]
Address=192.0.2.1/24
Gateway=192.0.2.2
[Route]
Destination=203.0.113.0/24
Gateway=192.0.2.2
TCPCongestionControlAlgorithm=fast
EOT
cat >/etc/asymcc/fast.conf <<EOT
LOAD="--set alpha=50"
USE="--default"
EOT
cat >/etc/asymcc/quick.conf <<EOT
OBJECT=fast
LOAD="--set alpha=20 --set pacing=1"
USE="--route 198.51.100.0/24"
EOT
cat >/etc/asymcc/thin.conf <<EOT
THIN="--cgroup /sys/fs/cgroup/system.slice --reverse 200kbit --max 8"
EOT
cat >/etc/systemd/system/check.service <<EOT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /root/check-guest.sh
StandardOutput=journal+console
StandardError=journal+console
ExecStopPost=systemctl poweroff --no-block
[Install]
WantedBy=default.target
EOT
systemctl -q enable systemd-networkd asymcc@fast asymcc@quick asymcc-thin check.service
cp /boot/vmlinuz-* /tmp/vmlinuz && cp /boot/initrd.img-* /tmp/initrd && mv /tmp/asymcc.deb /root/
rm -rf /var/lib/apt/lists/* # the image has little room
END
	mmdebstrap --quiet --variant=minbase --format=ext2 \
		--include=systemd-sysv,dbus,linux-image-cloud-amd64,iproute2,man-db,bash-completion \
		--customize-hook="copy-in $work/hook /root" \
		--customize-hook="upload $deb /tmp/asymcc.deb" \
		--customize-hook="upload check-guest.sh /root/check-guest.sh" \
		--customize-hook='chroot "$1" sh /root/hook' \
		--customize-hook="download /tmp/vmlinuz $work/vmlinuz" --customize-hook="download /tmp/initrd $work/initrd" \
		--customize-hook='rm -f "$1"/tmp/*' \
		"$suite" "$work/root.ext2"
	timeout 3600 qemu-system-x86_64 -accel tcg -cpu max -m 1024 -display none -no-reboot -nic user,restrict=on,model=virtio \
		-kernel "$work/vmlinuz" -initrd "$work/initrd" -append "root=/dev/vda rw console=ttyS0 quiet mitigations=off panic=-1" \
		-drive "file=$work/root.ext2,format=raw,if=virtio" -serial "file:$work/console" || true
	grep -a 'check: ' "$work/console" || { tail -n 40 "$work/console"; }
	grep -aq 'check: passed' "$work/console" || { echo "$suite: failed"; exit 1; }
	rm -rf "$work"
	echo "$suite: passed"
done
