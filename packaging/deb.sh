#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# deb.sh ROOT [ARCH TRIPLET LIBRARIES]: make asymcc_VERSION_ARCH.deb, beside ROOT, of what `make install` put there. Run by
# `make deb`. LIBRARIES: of another architecture, the root that holds its packages.
#
# The same sources give the same bytes: times are those of the last commit, owners are root's.
set -eu -o pipefail
umask 022
root=$1
src=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$src/../VERSION")
arch=${2:-$(dpkg --print-architecture)} triplet=${3:-} libraries=${4:-}
maintainer="asymcc authors <asymcc@packages.invalid>"
: "${SOURCE_DATE_EPOCH:=$(git -C "$src" log -1 --format=%ct 2>/dev/null || stat -c %Y "$src/../LICENSE")}"
export SOURCE_DATE_EPOCH

"${triplet:+$triplet-}strip" --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/sbin/asymcc"
gzip -9n "$root/usr/share/man/man8/asymcc.8"

doc=$root/usr/share/doc/asymcc
mkdir -p "$doc" "$root/DEBIAN"
cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: $(sed -n 's/^Copyright (c) //p' "$src/../LICENSE")
License: GPL-2.0-only OR BSD-2-Clause

License: GPL-2.0-only
 On Debian systems the text is in /usr/share/common-licenses/GPL-2.

License: BSD-2-Clause
$(sed -n '/^Redistribution and use/,/^=====/p' "$src/../LICENSE" | sed '/^=====/d; s/^$/./; s/^/ /' | sed '$d')
END
gzip -9n >"$doc/changelog.gz" <<END
asymcc ($version) unstable; urgency=medium

  * As of the sources' last commit.

 -- $maintainer  $(date -uR -d "@$SOURCE_DATE_EPOCH")
END

# BPF is a machine of its own, and the instances to stop are known to systemctl alone.
mkdir -p "$root/usr/share/lintian/overrides"
cat >"$root/usr/share/lintian/overrides/asymcc" <<END
asymcc: binary-from-other-architecture [usr/lib/asymcc/*.bpf.o]
asymcc: maintainer-script-calls-systemctl [prerm:*]
END

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/debian"
printf 'Source: asymcc\n\nPackage: asymcc\nArchitecture: any\n' >"$scratch/debian/control"
shlibdeps=(dpkg-shlibdeps)
if [ "$libraries" ]; then # dpkg knows those by where they lie
	cp -r "$libraries/var/lib/dpkg" "$scratch/dpkg"
	sed -i "s,^,$libraries," "$scratch"/dpkg/info/*.list
	shlibdeps+=("--admindir=$scratch/dpkg" "-l$libraries/usr/lib/$triplet" "-l$libraries/lib/$triplet")
	export DEB_HOST_ARCH=$arch
fi
depends=$(cd "$scratch" && "${shlibdeps[@]}" -O --warnings=0 "$root/usr/sbin/asymcc" | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<END
Package: asymcc
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Description: TCP congestion control for asymmetric paths, as BPF programs
 Congestion controllers that a running Linux (6.1 or later with BTF) loads
 without a reboot: FAST, TCP-Fusion, TCP-Taichung, Formosa, Pseudo-rate TCP and
 the rivals they were compared with. asymcc loads them, gives them to routes,
 cgroups or all new connections, watches and tunes them, and takes them out.
END
(cd "$root" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$root/DEBIAN/conffiles"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
for script in postinst prerm postrm; do
	install -m 755 "$src/$script" "$root/DEBIAN/$script"
done
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group --build "$root" "$(dirname "$root")/asymcc_${version}_$arch.deb"
