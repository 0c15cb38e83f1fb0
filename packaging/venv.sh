#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# venv.sh VENV LOCK: the lab's Python in VENV, with the packages of LOCK, and the tree itself (pip install -e). Run by make.
#
# A copy of the tree runs its own files, and a tree may be moved: what lies in VENV finds its tree and its Python by its
# own place. pip and venv write the place where they ran.
set -eu -o pipefail
venv=$1 lock=$2
tree=$(cd "$(dirname "$0")/.." && pwd -P)

# A module is compiled when it is first imported: most never are.
[ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q --no-compile --disable-pip-version-check --require-hashes --only-binary :all: -r "$lock"
rm -f "$venv"/bin/[aA]ctivate*

"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e "$tree"

# A line of a .pth file begins at the file's folder. A VENV elsewhere is not copied with the tree.
site=$(cd "$venv"/lib/python3*/site-packages && pwd -P)
case $site/ in
"$tree"/*) echo "$(realpath --relative-to="$site" "$tree")/experiments" >"$(ls "$site"/__editable__.asymlab-*.pth)" ;;
esac

# For a shell the first words are exec, for Python they are a string. A long or odd path has such lines of pip's.
found='"$(dirname "$(readlink -f "$0")")/python" "$0" "$@"'
for script in "$venv"/bin/*; do
	[ -f "$script" ] && [ ! -L "$script" ] || continue
	case $(head -c 200 "$script" | tr -d '\0' | head -n 2) in
	"#!/bin/sh"*"'''exec' "*) old=3 ;;
	"#!"*python*) old=1 ;;
	*) continue ;;
	esac
	{
		printf "#!/bin/sh\n'''exec' %s\n' '''\n" "$found"
		tail -n "+$((old + 1))" "$script"
	} >"$script.new"
	chmod +x "$script.new"
	mv "$script.new" "$script"
done
