#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# check-wheel.sh PYTHON WHEEL [SUITE...]: a stranger's first hour, on a clean Debian without this tree. Run by `make check-wheel`.
#
# On Debian 12 it does what the workflow of examples/controller does, step by step; on others the first two commands of the
# README. It tells the time of each step, and what the lab takes on disk. No root, no KVM.
set -eu -o pipefail
python=$(realpath -s "$1") wheel=$(realpath "$2")
shift 2
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
start = ["apt-get update -qq", install, f"python3 -m venv /lab && /lab/bin/pip install -q ./{wheel}"]
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
for suite in "${@:-bookworm}"; do
	steps=start
	[ "$suite" != bookworm ] || steps=workflow
	echo "$suite"
	LOG=$work/log mmdebstrap --quiet --variant=minbase --format=null \
		--customize-hook="copy-in $work/toy /root" --customize-hook="upload $work/$steps /root/steps" \
		--customize-hook="upload $certificates /root/certificates" \
		--customize-hook='REQUESTS_CA_BUNDLE=/root/certificates PIP_CERT=/root/certificates chroot "$1" bash /root/steps 3>&1 >"$LOG" 2>&1 || { tail -n 20 "$LOG" >&2; exit 1; }' \
		"$suite" /dev/null
done
