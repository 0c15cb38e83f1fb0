# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compiles a controller for the host and talks to it (see driver.c for the protocol)."""

import fcntl
import json
import os
import re
import subprocess
from pathlib import Path

from asymlab import controllers as register

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
OUT = TOP / "build" / "host"
CFLAGS = (
    "-std=gnu11 -g -O2 -fno-strict-aliasing -Wall -Wextra -Werror "
    "-Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-unused-function "
    "-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-sanitize-coverage=trace-cmp "
    "-fprofile-instr-generate=/dev/null -fcoverage-mapping"
).split()


def controllers():
    """The sources of all, the rivals' too, by name."""
    paths = (path for at in ("controllers", "rivals") for path in sorted(TOP.glob(f"bpf/{at}/*.bpf.c")))
    return {path.name.removesuffix(".bpf.c"): path for path in paths}


def run(*command):
    """The output of a command; an error ends with the compiler's own words."""
    done = subprocess.run(command, capture_output=True, text=True)
    if "libclang_rt" in done.stderr or "sanitizer/asan_interface.h" in done.stderr:
        raise SystemExit("clang has no sanitizers; run: sudo apt-get install libclang-rt-dev")
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def numbers(types, type_id, path=""):
    """The members of a struct that are plain numbers, those of its structs too."""
    for m in types[type_id]["members"]:
        inner = m["type_id"]
        while (kind := types[inner]["kind"]) in ("TYPEDEF", "VOLATILE", "CONST"):
            inner = types[inner]["type_id"]
        at = path + ("." if path and m["name"] != "(anon)" else "") + m["name"].replace("(anon)", "")
        if kind in ("STRUCT", "UNION"):
            yield from numbers(types, inner, at)
        elif kind in ("INT", "ENUM") and not m.get("bitfield_size"):
            yield at


def storage_of(source):
    """The map of a controller's storage, and how its fields are called here; None: it has none."""
    text = source.read_text()
    if 'SEC("sockops")' in text:
        return "wires", "wire"
    if '"slowstart.bpf.h"' in text:
        return "starts", "start"
    if '"fair.bpf.h"' in text:
        return "fairs", "fair"
    found = re.search(r"BPF_MAP_TYPE_SK_STORAGE.*?\} (\w+) SEC", text, re.S)
    return (found[1], found[1].removesuffix("s")) if found else None


def write_fields(name, source, store):
    """The members of a connection that tests see, by its object's BTF: those of its struct, and of its storage."""
    made = OUT / f"{name}.{os.getpid()}.bpf.o"
    places = [f"-I{TOP}/bpf", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]
    run("clang", *"-g -O2 -w -target bpf -mcpu=v3".split(), *places, "-c", source, "-o", made)
    types = {t["id"]: t for t in json.loads(run("bpftool", "-j", "btf", "dump", "file", made))["types"]}
    made.unlink()
    named = {(t["kind"], t["name"]): t for t in types.values()}
    if ("STRUCT", name) not in named:
        raise LookupError(f"{source}: no STATE(struct {name})")
    own = [*numbers(types, named["STRUCT", name]["id"])]
    lines = [f"SENDER({m[2:]})" if m.startswith("s.") else f"FIELD({m})" for m in own]
    if store:
        (value,) = (m for m in types[named["VAR", store[0]]["type_id"]]["members"] if m["name"] == "value")
        lines += [f"STORED({m})" for m in numbers(types, types[value["type_id"]]["type_id"])]
    fields = OUT / f"{name}.fields.h"
    fields.write_text("\n".join(lines) + "\n")
    return fields


def build(name, source=None):
    """The driver with controller `name`, compiled anew only when a source is newer. If two want it at once,
    one compiles."""
    source = Path(source or controllers()[name])
    binary = OUT / source.name.removesuffix(".bpf.c")
    OUT.mkdir(parents=True, exist_ok=True)
    with open(binary.with_suffix(".lock"), "w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        return _build(name, source, binary)


def _build(name, source, binary):
    sources = [source, *HERE.glob("*.[ch]"), *HERE.glob("fake/**/*.h"), *TOP.glob("bpf/**/*.[ch]")]
    sources += Path(register.__file__).parent.glob(f"{name}.py")
    if binary.exists() and all(s.stat().st_mtime < binary.stat().st_mtime for s in sources):
        return binary
    store = storage_of(source)
    made = binary.with_name(f"{binary.name}.{os.getpid()}")
    command = ["clang", *CFLAGS, f"-I{HERE}/fake", f"-I{TOP}/bpf"]
    command += [f'-DCONTROLLER="{source}"', f"-DOPS={name}"]
    command += [f'-DFIELDS="{write_fields(name, source, store)}"']
    command += ["-DBENDS=" + "".join(f'{{"{what}", "{rule}"}},' for what, rule in register.of(name).bends)]
    if store:
        command += [f"-DSTORE={store[0]}", f'-DSTORED_AS="{store[1]}"']
    if 'SEC("sockops")' in source.read_text():
        command += ["-DWIRE", f"-DSOCKOPS={name}_sockops", f"-DEGRESS={name}_egress"]
    run(*command, "-o", made, HERE / "driver.c")
    made.replace(binary)
    return binary


class Driver:
    """One controller in one process; one connection at a time."""

    def __init__(self, binary, *mode):
        self.binary, self.mode = binary, mode
        self.spawn()

    def spawn(self):
        self.process = subprocess.Popen(
            [self.binary, *self.mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def close(self):
        self.process.stdin.close()
        return self.process.wait()

    def batch(self, lines):
        """Many commands, fewer switches between the processes. The pipes hold 256 of either side."""
        answers = []
        for start in range(0, len(lines), 256):
            part = lines[start : start + 256]
            try:
                self.process.stdin.write("\n".join(part) + "\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass
            for line in part:
                answer = self.process.stdout.readline()
                if not answer:
                    words = self.process.stderr.read()
                    self.spawn()  # the next test begins clean
                    raise AssertionError(f"died at {line!r}:\n{words}")
                answers.append(json.loads(answer))
                assert "error" not in answers[-1], (line, answers[-1])
        return answers

    def do(self, command, **keys):
        return self.batch([line(command, **keys)])[0]

    def __getattr__(self, command):
        if command.startswith("_"):
            raise AttributeError(command)
        return lambda **keys: self.do(command, **keys)

    def start(self, params=None, **keys):
        """A fresh connection with these parameters, the others at their defaults."""
        self.do("reset")
        if params:
            self.do("set", **params)
        return self.do("new", **keys)


def line(command, **keys):
    """`wire__in__var` is wire.in.var; bytes are written in hexadecimal."""
    values = (
        (key.replace("__", "."), value.hex() if isinstance(value, bytes) else int(value)) for key, value in keys.items()
    )
    return " ".join([command, *(f"{key}={value}" for key, value in values)])
