# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Containers of runc, which Docker, podman and containerd start: how one gets a controller, and what it inherits."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.live.harness import ENDS, ROOT, asymcc, kernel_has, listed, needs_cgroup2, refused, run, unique
from tests.live.harness import pytestmark as live

pytestmark = [*live]
needs_runc = pytest.mark.skipif(not shutil.which("runc"), reason="no runc here: `make check-operation` installs it")

MANIFEST = ROOT / "packaging" / "kubernetes" / "asymcc.yaml"
VALIDATE = ROOT / "build" / "kubernetes" / "bin" / "kubernetes-validate"
DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def bind(source: Path | str, destination: Path | str, how: str = "ro") -> dict:
    return {"destination": str(destination), "source": str(source), "type": "none", "options": ["rbind", how]}


def plain(folder: Path, args: list[str]) -> dict:
    """A container with this machine's programs, as runc has it."""
    (folder / "rootfs").mkdir(exist_ok=True)
    (folder / "config.json").unlink(missing_ok=True)
    run("runc", "spec", "--bundle", folder)
    config = json.loads((folder / "config.json").read_text())
    config["process"] |= {"terminal": False, "args": args}
    config["mounts"] += [bind(f"/{there}", f"/{there}") for there in ("usr", "lib", "lib64", "bin", "sbin")]
    return config


def bundle(folder: Path, controller: str | None = None, parent: str = "") -> Path:
    """The bundle that `docker run --sysctl net.ipv4.tcp_congestion_control=NAME` hands to runc."""
    config = plain(folder, [os.path.realpath(sys.executable), "/ends.py", "container"])
    config["mounts"].append(bind(ENDS, "/ends.py"))
    for kind in ("bounding", "effective", "permitted"):
        config["process"]["capabilities"][kind].append("CAP_NET_ADMIN")  # to set lo up
    if controller:
        config["linux"]["sysctl"] = {"net.ipv4.tcp_congestion_control": controller}
    if parent:
        config["linux"]["cgroupsPath"] = f"/{parent}/{folder.name}"
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@contextlib.contextmanager
def container(folder: Path, *of: str | None):
    """A function that tells what a new connection in it has."""
    name = unique("asymcc-test-")
    argv = ["runc", "run", "--bundle", bundle(folder, *of), name]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([str(a) for a in argv], text=True, **pipes) as p:

        def tells() -> list[str]:
            p.stdin.write("\n")
            p.stdin.flush()
            line = p.stdout.readline()
            assert line, p.stderr.read()
            return line.split()

        try:
            yield tells
        finally:
            p.stdin.close()
            p.wait(timeout=30)


def does_not_start(folder: Path, controller: str) -> str:
    done = run("runc", "run", "--bundle", bundle(folder, controller), unique("asymcc-test-"), check=False)
    assert done.returncode
    return done.stderr


def test_a_namespace_inherits_the_machines_default_alone(loaded):
    """Not that of the namespace that makes it, and no routes."""
    machine, other = DEFAULT.read_text().strip(), loaded("fast")  # any namespace may have one that asymcc loads
    script = f"echo {other} >{DEFAULT} && ip link set lo up && ip route add 198.51.100.0/24 dev lo congctl {other}"
    script += f" && unshare --net sh -c 'cat {DEFAULT}; ip route show table all'"
    assert run("unshare", "--net", "sh", "-c", script).stdout == f"{machine}\n"


@needs_runc
def test_a_sysctl_gives_a_container_its_controller(loaded, tmp_path):
    name = loaded("fast")
    with container(tmp_path, name) as tells:
        assert tells() == [name, name]
        (used,) = listed(name)["used_by"]
        assert used["default"] and used["netns"].startswith("pid ")
        assert f"{name} is still given to connections" in refused("unload", name)
    with container(tmp_path) as tells:
        assert tells() == [DEFAULT.read_text().strip()] * 2


@needs_runc
def test_without_the_controller_it_does_not_start(loaded, alias, tmp_path):
    name = alias()
    assert "write /proc/sys/net/ipv4/tcp_congestion_control: no such file or directory" in does_not_start(
        tmp_path, name
    )
    asymcc("load", "fast", "--as", name)
    with container(tmp_path, name) as tells:
        assert tells() == [name, name]
    asymcc("unload", name)
    assert "no such file or directory" in does_not_start(tmp_path, name)


@needs_runc
def test_drain_takes_it_back_from_a_container(loaded, tmp_path):
    name = loaded("fast")
    with container(tmp_path, name) as tells:
        assert tells() == [name, name]
        asymcc("unload", name, "--drain", "--seconds", 0)
        assert not kernel_has(name)
        default, new = tells()
        assert default == new != name


@needs_runc
def test_by_force_it_stays_the_default_of_a_container(loaded, tmp_path):
    """The namespace holds it, and new connections take it, until the container ends."""
    name = loaded("fast")
    with container(tmp_path, name) as tells:
        assert tells() == [name, name]
        asymcc("unload", name, "--force")
        assert not kernel_has(name)
        assert tells() == [name, name] and listed(name)["unloading"]
    until = time.monotonic() + 20
    while listed(name):  # the kernel takes a namespace away when it has time
        assert time.monotonic() < until
        time.sleep(0.1)


@needs_runc
@needs_cgroup2
def test_a_cgroup_gives_it_to_containers_and_a_route_does_not(loaded, cgroup, tmp_path):
    """Whatever network namespace they have."""
    name = loaded("fast")
    asymcc("use", name, "--cgroup", cgroup.path)
    with container(tmp_path, None, cgroup.path.name) as tells:
        default, new = tells()
        assert new == name != default


# --- Kubernetes -----------------------------------------------------------------------------


def pod() -> dict:
    return yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]


@pytest.mark.skipif(not VALIDATE.exists(), reason="no schemas of Kubernetes here: `make check-operation` installs them")
def test_the_manifest_is_what_kubernetes_takes(tmp_path):
    assert "passed" in run(VALIDATE, "--strict", MANIFEST).stdout
    (tmp_path / "wrong.yaml").write_text(MANIFEST.read_text().replace("hostPID", "hostPid"))
    assert run(VALIDATE, "--strict", tmp_path / "wrong.yaml", check=False).returncode == 1


def as_the_kubelet_does(folder: Path, env: dict[str, str]) -> None:
    """The container of the manifest, with its rights and mounts, and with our build in its image."""
    spec = pod()
    (of,) = spec["containers"]
    config = plain(folder, of["command"])
    here = bind(ROOT / "build", "/asymcc")
    volumes = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"]}
    config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys/fs/cgroup"] + [here]
    config["mounts"] += [bind(volumes[m["name"]], m["mountPath"], "rw") for m in of["volumeMounts"]]
    names = {e["name"]: e["value"] for e in of["env"]} | env
    names |= {"PATH": f"/asymcc:{os.environ['PATH']}", "ASYMCC_OBJECTS": "/asymcc"}
    config["process"]["env"] = [f"{k}={v}" for k, v in names.items()]
    rights = of["securityContext"]
    assert rights["capabilities"]["drop"] == ["ALL"] and not rights["allowPrivilegeEscalation"]
    caps = [f"CAP_{name}" for name in rights["capabilities"]["add"]]
    config["process"] |= {
        "noNewPrivileges": True,
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), caps),
    }
    config["root"]["readonly"] = rights["readOnlyRootFilesystem"]
    shared = {"network": spec["hostNetwork"], "pid": spec["hostPID"]}
    config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if not shared.get(n["type"])]
    (folder / "config.json").write_text(json.dumps(config))


@needs_runc
@needs_cgroup2
def test_the_manifests_container_loads_and_takes_out(alias, cgroup, tmp_path):
    name, id = alias(), unique("asymcc-test-")
    (of,) = pod()["containers"]
    Path("/run/asymcc").mkdir(exist_ok=True)  # DirectoryOrCreate
    as_the_kubelet_does(tmp_path, {"NAME": name, "USE": f"--cgroup {cgroup.path}"})
    with open(tmp_path / "log", "w+") as log:
        subprocess.run(["runc", "run", "--detach", "--bundle", tmp_path, id], stdout=log, stderr=log, check=True)
        try:
            until = time.monotonic() + 20
            while not (listed(name) or {}).get("used_in"):
                assert time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.1)
            assert listed(name)["used_in"] == [str(cgroup.path)]
            run("runc", "exec", id, *of["lifecycle"]["preStop"]["exec"]["command"])
            assert listed(name) is None and not kernel_has(name)
        finally:
            run("runc", "delete", "--force", id, check=False)
