#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# check-wheel.sh PYTHON WHEEL [SUITE...]: a stranger's first hour, on a clean Debian without this tree. Run by `make check-wheel`.
#
# On Debian 12 it does what the workflow of examples/controller does, step by step; on others the first two commands of the
# README. It tells the time of each step, and what the lab takes on disk. No root, no KVM.
#
# With CPUS="Nehalem Haswell EPYC" the wheel makes the canary in Debian 13 on these CPUs of QEMU's, in both cages: the bytes
# must be those of this tree. A minute and a half of a core for each, and a minute for the system.
set -eu -o pipefail
python=$(realpath -s "$1") wheel=$(realpath "$2")
shift 2
unset PYTHONPYCACHEPREFIX # of make: a stranger has what is compiled in the lab's folder
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r examples/controller "$work/toy"
cp "$wheel" "$work/toy"

# Each command with its time: those of the workflow, with its variables, and those of the README.
"$python" - "$work" "$(basename "$wheel")" <<'END'
import shlex
import sys
from pathlib import Path

import yaml

work, wheel = Path(sys.argv[1]), sys.argv[2]
flow = yaml.safe_load((work / "toy/.github/workflows/test.yml").read_text())
workflow = [step["run"].strip() for step in flow["jobs"]["test"]["steps"] if "run" in step]
install = "apt-get install -qq -y --no-install-recommends python3 python3-venv ca-certificates"
start = ["apt-get update -qq", install, f"python3 -m venv /lab && /lab/bin/pip install -q --no-compile ./{wheel}"]
start.append("/lab/bin/asymlab link --rate 50mbit --rtt 30ms")
for name, commands, variables in (("workflow", workflow, flow["env"]), ("start", start, {})):
    lines = ["set -u", "cd /root/toy", "TIMEFORMAT='%0R s, %0U + %0S s of a core'", "export DEBIAN_FRONTEND=noninteractive"]
    lines += [f"export {variable}={shlex.quote(value)}" for variable, value in variables.items()]
    for command in commands:
        told = shlex.quote(command[:70])
        lines.append(f"echo {told} >&3\n{{ time {{ {command}; }} 2>&1; }} 2>&3 || exit 1")
    lines.append('echo "$(du -sm /lab | cut -f1) MB, $SECONDS s in all, load $(cut -d" " -f1-3 /proc/loadavg)" >&3')
    (work / name).write_text("\n".join(lines) + "\n")
END

# Behind a proxy of its own certificate this machine's pip knows it.
certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
run='REQUESTS_CA_BUNDLE=/root/certificates PIP_CERT=/root/certificates chroot "$1" bash /root/steps 3>&1 >"$LOG" 2>&1 || { tail -n 20 "$LOG" >&2; exit 1; }'
system() {
	mmdebstrap --quiet --variant=minbase --customize-hook="copy-in $work/toy /root" --customize-hook="upload $certificates /root/certificates" \
		--customize-hook="upload $work/$1 /root/steps" "${@:2}"
}

for suite in "${@:-bookworm}"; do
	steps=start
	[ "$suite" != bookworm ] || steps=workflow
	echo "$suite"
	LOG=$work/log system "$steps" --format=null --customize-hook="$run" "$suite" /dev/null
done

[ -n "${CPUS:-}" ] || exit 0
canary=experiments/bench/cases.toml:canary
known=$("$(dirname "$python")/asymlab" run "$canary" --engine uml --fresh --no-pages 2>&1 | grep -o 'result_sha256 .*')
echo "this tree: $known"
cat >"$work/cpus" <<'END'
set -eu
export LC_ALL=C.UTF-8
python3 -m venv /lab && /lab/bin/pip install -q /root/toy/*.whl
rm -rf /var/lib/apt/lists/* # the image has little room
END
cat >"$work/toy/init" <<END
#!/bin/bash
export HOME=/tmp PATH=/usr/sbin:/usr/bin
mount -t proc proc /proc && mount -t tmpfs tmpfs /tmp && mkdir /tmp/shm && mount -t tmpfs tmpfs /dev/shm
for cage in bubblewrap landlock; do
	ASYMLAB_CAGE=\$cage /lab/bin/asymlab run $canary --no-pages --fresh >/tmp/log 2>&1 || tail -n 20 /tmp/log
	echo "\$cage: \$(grep -o 'result_sha256 .*' /tmp/log)"
done
echo o >/proc/sysrq-trigger
read -t 60 <>/dev/console
END
chmod +x "$work/toy/init"
LOG=$work/log system cpus --format=ext2 --include=linux-image-cloud-amd64,bubblewrap,python3,python3-venv,ca-certificates --customize-hook="$run" \
	--customize-hook='cd "$1/boot" && mv vmlinuz-* vmlinuz && mv initrd.img-* initrd' \
	--customize-hook="download /boot/vmlinuz $work/vmlinuz" --customize-hook="download /boot/initrd $work/initrd" trixie "$work/root.ext2"
for cpu in $CPUS; do
	TIMEFORMAT="$cpu: %U s of CPU"
	time timeout 1800 qemu-system-x86_64 -accel tcg -cpu "$cpu" -m 2048 -display none -no-reboot -nodefaults -snapshot \
		-kernel "$work/vmlinuz" -initrd "$work/initrd" -drive "file=$work/root.ext2,format=raw,if=virtio" -serial "file:$work/console" \
		-append "root=/dev/vda rw console=ttyS0 quiet mitigations=off panic=-1 init=/root/toy/init" 2>"$work/log" || cat "$work/log"
	for cage in bubblewrap landlock; do
		grep -aq "$cage: $known" "$work/console" || { tail -n 40 "$work/console"; echo "$cpu, $cage: failed"; exit 1; }
	done
	echo "$cpu: the same"
done
