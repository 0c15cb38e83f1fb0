#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# release.sh PYTHON FOLDER FILES...: a version to publish in FOLDER. Run by `make release`. FILES: packages that are made, as
# they are.
#
# Beside them: the feed for OpenWrt, the recipe of the container, what CHANGELOG.md says of the version, the bill of
# materials of the wheel, and checksums. The same sources give the same bytes.
set -eu -o pipefail
python=$(realpath -s "$1") folder=$(realpath "$2")
shift 2
mapfile -t files < <(realpath "$@")
cd "$(dirname "$0")/.."
umask 022
version=$(cat VERSION)
notes=$(sed -n "/^## ${version//./\\.}\$/,/^## /{/^## /!p}" CHANGELOG.md)
[ "$notes" ] || { echo "release: CHANGELOG.md has no heading \"## $version\": write what this version brings" >&2; exit 1; }
rm -rf "$folder" && mkdir -p "$folder"
trap '[ -e "$folder/SHA256SUMS" ] || rm -rf "$folder"' EXIT

for file in "${files[@]}"; do install -m 644 "$file" "$folder"; done
tar --sort=name --mtime=2026-01-01Z --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --transform="s,^,asymcc-$version-openwrt/," \
	-c LICENSE VERSION bpf loader packaging/openwrt | gzip -9n >"$folder/asymcc-$version-openwrt.tar.gz"
install -m 644 packaging/container/Containerfile "$folder"
echo "asymcc $version"$'\n'"$notes" >"$folder/NOTES.md"
"$python" packaging/sbom.py "$folder"/*.whl >"$folder/sbom.json"
(cd "$folder" && sha256sum -- * >.sums && mv .sums SHA256SUMS)
echo "$folder: $(ls "$folder" | wc -l) files, $(du -sh --apparent-size "$folder" | cut -f1)"
