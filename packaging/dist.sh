#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# dist.sh PYTHON FOLDER: the package of sources and the wheel into FOLDER. Run by make. setup.py says what they have.
#
# Both have the same bytes whenever they are made. The times in an archive of setuptools are those of its files.
set -eu -o pipefail
python=$(realpath -s "$1") folder=$(realpath "$2")
cd "$(dirname "$0")/.."
umask 022
rm -rf "$folder" && mkdir -p "$folder/.new"
trap 'rm -rf "$folder/.new"' EXIT

"$python" - "$folder/.new" >"$folder/.new/log" 2>&1 <<'END' || { tail -n 20 "$folder/.new/log" >&2; exit 1; }
import sys
from setuptools import build_meta
folder = sys.argv[1]  # setuptools writes argv anew
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
END
(
	cd "$folder/.new"
	sources=$(echo *.tar.gz)
	tar -xzf "$sources"
	tar --sort=name --mtime=2026-01-01Z --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c "${sources%.tar.gz}" | gzip -9n >"../$sources"
	mv ./*.whl ..
)
for file in "$folder"/*; do echo "$file: $(stat -c %s "$file") bytes"; done
