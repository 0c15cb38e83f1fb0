#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# static.sh FOLDER TRIPLET: FOLDER/static/asymcc, which needs no library of its system. Run by `make static`.
#
# It is linked with musl, and with libbpf, libelf and zlib of Debian's sources in FOLDER/sources: the libraries of Debian's
# packages are made for another C library. FOLDER/root holds musl and the kernel's headers.
set -eu -o pipefail
folder=$1 triplet=$2
cd "$(dirname "$0")/.."
root=$PWD/$folder/root out=$PWD/$folder/static
libbpf=$(echo "$folder"/sources/libbpf-*/) elf=$(echo "$folder"/sources/elfutils-*/) zlib=$(echo "$folder"/sources/zlib-*/)
musl=${triplet%-gnu}-musl
rm -rf "$out"
mkdir -p "$out"/{kernel,libbpf/bpf,elf,zlib,loader}

ln -s "$root"/usr/include/{linux,asm-generic} "$root/usr/include/$triplet/asm" "$out/kernel"
cc=("$triplet-gcc" -Os -ffunction-sections -fdata-sections -ffile-prefix-map="$PWD=." -nostdinc
	-isystem "$root/usr/include/$musl" -isystem "$("$triplet-gcc" -print-file-name=include)" -isystem "$out/kernel")
case $triplet in aarch64*) cc+=(-mno-outline-atomics) ;; esac # those of gcc's library ask for what musl has not

# compile LIBRARY FILES... -- FLAGS...
compile() {
	local into=$out/$1 files=()
	shift
	while [ "$1" != -- ]; do
		files+=("$1")
		shift
	done
	shift
	for file in "${files[@]}"; do
		"${cc[@]}" "$@" -c "$file" -o "$into/$(echo "${file%.c}" | tr / _).o"
	done
}

(cd "$zlib" && compile zlib *.c -- -w -DHAVE_UNISTD_H)

# Its configure script wants more than libelf does.
cat >"$out/elf/config.h" <<END
#define HAVE_ERR_H 1
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_REALLOCARRAY 1
#include <eu-config.h>
END
zlib=$PWD/$zlib
(cd "$elf/libelf" && compile elf *.c -- -w -D_GNU_SOURCE -DHAVE_CONFIG_H -I"$out/elf" -I. -I../lib -I"$zlib")

(cd "$libbpf/src" && cp ./*.h "$out/libbpf/bpf" && compile libbpf *.c -- -w -D_GNU_SOURCE -I../include -I../include/uapi \
	-I"$OLDPWD/$elf/libelf" -I"$zlib")

compile loader loader/*.c loader/*/*.c -- -Wall -Wextra -D_GNU_SOURCE -Iloader -Ibpf -I"$out/libbpf" \
	-DASYMCC_VERSION="\"$(cat VERSION)\""
libraries=$root/usr/lib/$musl
"$triplet-gcc" -static -nostdlib -Wl,--gc-sections -s -o "$out/asymcc" "$libraries"/{crt1,crti}.o "$out"/{loader,libbpf,elf,zlib}/*.o \
	"$libraries/libc.a" "$("$triplet-gcc" -print-libgcc-file-name)" "$libraries/crtn.o"
echo "$folder/static/asymcc: $(stat -c %s "$out/asymcc") bytes"
