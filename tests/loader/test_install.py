# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The files of `make install` and `make deb` work from their places. `make check-package` tries the rest on whole
systems."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.harness import ROOT

UNITS = ["asymcc@.service", "asymcc-load@.service", "asymcc-thin.service", "asymcc-uplink@.service"]
EXAMPLES = ["NAME.conf.example", "thin.conf.example"]

pytestmark = pytest.mark.skipif(
    subprocess.run(["make", "-q", "build"], cwd=ROOT, capture_output=True).returncode != 0,
    reason="not built, or older than its sources: run make build",
)


def needs(tool: str):
    return pytest.mark.skipif(not shutil.which(tool), reason=f"needs {tool}")


def run(*argv, check=True, **kw) -> subprocess.CompletedProcess:
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=120, **kw)
    assert not check or done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def make(*argv, **kw) -> subprocess.CompletedProcess:
    return run("make", "-C", ROOT, *argv, **kw)


def files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir()}


def objects() -> set[str]:
    """All but the lab's own."""
    sources = (p for p in (ROOT / "bpf").rglob("*.bpf.c") if p.parent.name != "lab")
    return {p.name.replace(".bpf.c", ".bpf.o") for p in sources}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    """Installed where it stays: the unit's paths are those of the files."""
    prefix = tmp_path_factory.mktemp("prefix")
    make("install", f"PREFIX={prefix}", f"SYSCONFDIR={prefix}/etc")
    return prefix


@pytest.mark.parametrize("folder", ["dest", "a folder's, of mine"])
def test_installs_into_destdir_and_uninstalls_all(tmp_path, folder):
    tmp_path = tmp_path / folder
    make("install", f"DESTDIR={tmp_path}")
    assert files(tmp_path) == {
        "usr/local/sbin/asymcc",
        "usr/local/share/man/man8/asymcc.8",
        "usr/local/share/bash-completion/completions/asymcc",
        *(f"usr/local/lib/systemd/system/{name}" for name in UNITS),
        *(f"etc/asymcc/{name}" for name in EXAMPLES),
        *(f"usr/local/lib/asymcc/{name}" for name in objects()),
        "usr/local/share/asymcc/grafana.json",
    }
    for name in UNITS:
        assert str(tmp_path) not in (tmp_path / "usr/local/lib/systemd/system" / name).read_text()

    (tmp_path / "etc/asymcc/fast.conf").write_text('LOAD="--set alpha=50"\n')
    make("uninstall", f"DESTDIR={tmp_path}")
    assert files(tmp_path) == {"etc/asymcc/fast.conf"}, "the user's own stays, nothing else"


def test_install_builds_nothing_and_says_so(tmp_path):
    """Else `sudo make install` would leave root's files in the user's tree."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns("build", ".git", "docs", "__pycache__"))
    done = run("make", "-C", tree, "install", f"DESTDIR={tmp_path}/dest", check=False)
    assert done.returncode and "run: make build" in done.stdout
    assert not (tree / "build").exists() and not (tmp_path / "dest").exists()


def test_installed_finds_its_objects(prefix):
    env = {k: v for k, v in os.environ.items() if k != "ASYMCC_OBJECTS"}
    done = run(prefix / "sbin/asymcc", "load", "no_such", check=False, env=env, cwd="/")
    assert done.returncode == 1 and f"{prefix}/" in done.stderr and "fast" in done.stderr, done.stderr
    link = prefix / "link"
    link.symlink_to(prefix / "sbin/asymcc")
    assert run(link, "load", "no_such", check=False, env=env, cwd="/").stderr == done.stderr
    link.unlink()


@needs("groff")
def test_manual_renders(prefix):
    page = prefix / "share/man/man8/asymcc.8"
    done = run("groff", "-man", "-ww", "-Tascii", "-P-cbou", page)
    assert done.stderr == ""
    commands = re.findall(r"^  ([a-z]+) ", run(prefix / "sbin/asymcc", "--help").stdout, re.M)
    assert "load" in commands
    for command in commands:
        assert f"asymcc {command}" in done.stdout


def complete(prefix: Path, *words: str) -> list[str]:
    script = (
        f'. {prefix}/share/bash-completion/completions/asymcc; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _asymcc; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{prefix}/sbin:{os.environ['PATH']}"}
    return run("bash", "-euc", script, "bash", *words, env=env).stdout.split()


def test_completion(prefix):
    assert complete(prefix, "asymcc", "unl") == ["unload"]
    assert complete(prefix, "asymcc", "unload", "--dr") == ["--drain"]
    assert complete(prefix, "asymcc", "load", "--drain") == []


@needs("systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_unit_is_valid_and_confined(name, prefix):
    unit = prefix / "lib/systemd/system" / name
    env = {**os.environ, "MANPATH": f"{prefix}/share/man:"}
    # on a machine without man the check of Documentation= cannot pass
    done = run("systemd-analyze", "verify", "--man=yes" if shutil.which("man") else "--man=no", unit, env=env)
    assert done.stdout + done.stderr == ""
    done = run("systemd-analyze", "security", "--offline=yes", "--threshold=40", unit, check=False)
    if "unrecognized option" not in done.stderr:
        assert done.returncode == 0, done.stdout


def test_a_controller_is_loaded_before_the_network_is_set_up(prefix):
    """Else a .network file that names it takes the machine off the network. `make check-package` boots with one."""

    def settings(name: str) -> dict[str, list[str]]:
        lines = (prefix / "lib/systemd/system" / name).read_text().splitlines()
        pairs = [line.partition("=") for line in lines if "=" in line and line[0] != "#"]
        return {key: [w for k, _, words in pairs if k == key for w in words.split()] for key, _, _ in pairs}

    load, use = settings("asymcc-load@.service"), settings("asymcc@.service")
    assert "network-pre.target" in load["Before"] and load["DefaultDependencies"] == ["no"]
    assert not any("network" in w for w in load["After"]) and "PrivateTmp" not in load
    assert float(load["TimeoutStartSec"][0]) <= 60  # the network waits no longer
    assert "asymcc-load@%i.service" in use["Requires"] and "asymcc-load@%i.service" in use["After"]


def test_unit_uses_what_the_loader_has(prefix):
    """Commands and options in the units and the examples are those of this asymcc."""
    text = "".join(
        file.read_text()
        for file in [
            *(prefix / "lib/systemd/system" / n for n in UNITS),
            *(prefix / "etc/asymcc" / n for n in EXAMPLES),
        ]
    )
    for command, options in {
        "load": ["--as", "--replace", "--set"],
        "use": ["--route", "--default", "--cgroup"],
        "unload": ["--drain", "--seconds"],
        "thin": ["--cgroup", "--reverse", "--off"],
    }.items():
        assert f"asymcc {command}" in text
        usage = run(prefix / "sbin/asymcc", command, "--help").stdout
        for option in options:
            assert option in text and option in usage


def make_deb(folder: Path, **env: str) -> Path:
    make("deb", f"DEBS={folder}", env={**os.environ, **env})
    [deb] = folder.iterdir()
    return deb


@pytest.fixture(scope="module")
def deb(tmp_path_factory) -> Path:
    if not shutil.which("dpkg-shlibdeps"):
        pytest.skip("needs dpkg-dev")
    return make_deb(tmp_path_factory.mktemp("deb"))


def test_deb(deb, tmp_path):
    def field(name: str) -> str:
        return run("dpkg-deb", "-f", deb, name).stdout.strip()

    version = run(ROOT / "build/asymcc", "--version").stdout.split()[1]
    assert (field("Package"), field("Version")) == ("asymcc", version)
    assert {d.split()[0] for d in field("Depends").split(", ")} >= {"libbpf1", "libc6"}

    run("dpkg-deb", "-R", deb, tmp_path)
    assert files(tmp_path) == {
        "usr/sbin/asymcc",
        "usr/share/man/man8/asymcc.8.gz",
        "usr/share/bash-completion/completions/asymcc",
        *(f"usr/lib/systemd/system/{name}" for name in UNITS),
        *(f"etc/asymcc/{name}" for name in EXAMPLES),
        "usr/share/doc/asymcc/changelog.gz",
        "usr/share/doc/asymcc/copyright",
        "usr/share/lintian/overrides/asymcc",
        *(f"usr/lib/asymcc/{name}" for name in objects()),
        "usr/share/asymcc/grafana.json",
        *(f"DEBIAN/{name}" for name in ("control", "conffiles", "md5sums", "postinst", "prerm", "postrm")),
    }
    run("md5sum", "-c", "--quiet", "DEBIAN/md5sums", cwd=tmp_path)
    assert (tmp_path / "DEBIAN/conffiles").read_text() == "".join(f"/etc/asymcc/{n}\n" for n in EXAMPLES)
    assert all(" root/root " in line for line in run("dpkg-deb", "-c", deb).stdout.splitlines())
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", tmp_path / "DEBIAN" / script)
    unit = (tmp_path / "usr/lib/systemd/system/asymcc-load@.service").read_text()
    assert "ExecStart=/usr/sbin/asymcc" in unit and "/etc/asymcc/%i.conf" in unit and "@PREFIX@" not in unit
    assert "no_such in /" in run(tmp_path / "usr/sbin/asymcc", "load", "no_such", check=False).stderr


def test_deb_is_the_same_twice(deb, tmp_path):
    assert make_deb(tmp_path, TZ="Asia/Taipei", LC_ALL="C.UTF-8").read_bytes() == deb.read_bytes()


@needs("dpkg")
def test_deb_installs_and_purges(deb, tmp_path):
    """Into a folder; the scripts run, but see no systemd."""
    root = tmp_path / "root"
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc/systemd/system/multi-user.target.wants"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    dpkg = ("dpkg", f"--root={root}", "--force-depends,not-root,bad-path,script-chrootless", f"--log={tmp_path}/log")
    env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def ours() -> set[str]:
        return {f for f in files(root) if not f.startswith("var/lib/dpkg/")}

    run(*dpkg, "-i", deb, env=env)
    assert "usr/sbin/asymcc" in ours()
    (root / "etc/asymcc/fast.conf").touch()
    wants = "etc/systemd/system/multi-user.target.wants"
    (root / wants / "asymcc@fast.service").symlink_to("/usr/lib/systemd/system/asymcc@.service")
    (root / wants / "asymcc-thin.service").symlink_to("/usr/lib/systemd/system/asymcc-thin.service")
    (root / wants / "asymcc-uplink@wan0.service").symlink_to("/usr/lib/systemd/system/asymcc-uplink@.service")
    run(*dpkg, "-r", "asymcc", env=env)
    kept = {
        *(f"etc/asymcc/{name}" for name in EXAMPLES),
        "etc/asymcc/fast.conf",
        f"{wants}/asymcc@fast.service",
        f"{wants}/asymcc-thin.service",
        f"{wants}/asymcc-uplink@wan0.service",
    }
    assert ours() == kept
    run(*dpkg, "-P", "asymcc", env=env)
    assert ours() == set()


@pytest.mark.skipif(
    subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0, reason="needs a user namespace"
)
def test_removal_in_a_container_that_may_ask_nothing_says_nothing(tmp_path):
    """Its root is none of the kernel's, and has loaded nothing."""
    (tmp_path / "asymcc").symlink_to(ROOT / "build/asymcc")
    (tmp_path / "systemctl").symlink_to("/bin/true")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run("unshare", "-Ur", "sh", ROOT / "packaging/prerm", "remove", env=env)
    assert (done.stdout, done.stderr) == ("", "")
