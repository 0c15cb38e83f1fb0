#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# check-wheel.sh PYTHON WHEEL [SUITE]: a stranger's first hour, on a clean Debian without this tree. Run by `make check-wheel`.
#
# It does what the workflow of examples/controller does, step by step, and tells the time of each. No root, no KVM.
set -eu -o pipefail
python=$(realpath -s "$1") wheel=$(realpath "$2")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r examples/controller "$work/toy"
cp "$wheel" "$work/toy"

# Of the workflow: its variables, then each command with its time.
"$python" - "$work/toy/.github/workflows/test.yml" >"$work/steps" <<'END'
import shlex
import sys

import yaml

flow = yaml.safe_load(open(sys.argv[1]))
print("set -u\ncd /root/toy\nTIMEFORMAT='%0R s, %0U + %0S s of a core'")
for name, value in flow["env"].items():
    print(f"export {name}={shlex.quote(value)}")
for step in flow["jobs"]["test"]["steps"]:
    if command := step.get("run"):
        print(f"echo {shlex.quote(command.strip()[:70])} >&3\n{{ time {{ {command.strip()}; }} 2>&1; }} 2>&3 || exit 1")
print('echo "$SECONDS s in all, load $(cut -d" " -f1-3 /proc/loadavg)" >&3')
END

# Behind a proxy of its own certificate this machine's pip knows it.
certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
LOG=$work/log mmdebstrap --quiet --variant=minbase --format=null \
	--customize-hook="copy-in $work/toy /root" --customize-hook="upload $work/steps /root/steps" \
	--customize-hook="upload $certificates /root/certificates" \
	--customize-hook='REQUESTS_CA_BUNDLE=/root/certificates PIP_CERT=/root/certificates chroot "$1" bash /root/steps 3>&1 >"$LOG" 2>&1 || { tail -n 20 "$LOG" >&2; exit 1; }' \
	"${3:-bookworm}" /dev/null
