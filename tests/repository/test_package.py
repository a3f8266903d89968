"""The package that pip installs: its metadata, the files that are not code, its command."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from headspec import __version__
from headspec.provenance import code_hash
from support.paths import ROOT
from support.running.studies import CONFIG, Folder, local_model, texts

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_there_is_one_version():
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "workflow/headspec/VERSION"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_python_of_the_metadata_is_tried():
    """By CI, with every tier, and before a release; the functions for notebooks also on the next one."""
    named = "\n".join(PROJECT["project"]["classifiers"])
    pythons = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", named, re.MULTILINE)
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    makefile = (ROOT / "Makefile").read_text()
    tiers = re.findall(r"^(test[\w-]*):", makefile, re.MULTILINE)
    assert jobs["check"]["strategy"]["matrix"] == {"python": pythons, "part": ["preview", *tiers]}
    core = jobs["core"]["strategy"]["matrix"]
    assert core["python"][:-1] == pythons and core["versions"] == ["newest"]
    assert core["include"] == [{"python": pythons[0], "versions": "oldest"}]
    tried = re.search(r"^PYTHONS \?= (.+)", makefile, re.MULTILINE)[1].split()
    assert tried == [f"python{python}" for python in pythons]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from what the image has of the clone."""
    folder, clone = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("clone")
    image = (ROOT / "envs" / "Containerfile").read_text()
    for *names, _ in (line.split() for line in re.findall(r"^COPY (.+)", image, re.MULTILINE)):
        for name in names:
            path = ROOT / name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, clone / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(clone)], check=True)
    (found,) = folder.iterdir()
    return found


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel):
    library = code_hash.LIBRARY
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=library, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = {f"headspec/{name}" for name in tracked.stdout.splitlines()}
    rules = [*library.parent.glob("rules/*.smk"), library.parent / "Snakefile"]
    expected |= {f"headspec/workflow/{path.relative_to(library.parent)}" for path in rules}
    assert {"headspec/VERSION", "headspec/py.typed", "headspec/plots/drawing/headspec.mplstyle"} <= expected
    packed = zipfile.ZipFile(wheel).namelist()
    assert {name for name in packed if ".dist-info/" not in name} == expected


@pytest.mark.slow
def test_the_installed_package_runs_elsewhere(wheel, tmp_path):
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*install, str(wheel)], check=True)
    environment = os.environ | {"PYTHONPATH": str(site)}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert run(str(site / "bin" / "headspec"), "--version") == f"headspec {__version__}"
    local_model(tmp_path / "models" / "tiny-bert")
    texts(tmp_path / "texts")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(CONFIG))
    plan = run(str(site / "bin" / "headspec"), "plan", "study.yaml", "--rate", "1e9")
    assert re.search(r"^train +6 ", plan, re.MULTILINE)
    code = "import headspec; from headspec.plots.drawing import style; print(headspec.__file__)"
    assert run(sys.executable, "-c", code) == str(site / "headspec" / "__init__.py")
    code = "from importlib.metadata import version; print(version('headspec'))"
    assert run(sys.executable, "-c", code) == __version__


@pytest.mark.slow
def test_a_clone_runs_its_own_code(tmp_path):
    """Another headspec that is installed is not looked at."""
    other = tmp_path / "site" / "headspec"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('another headspec')")
    folder = Folder.new(tmp_path / "study")
    assert folder.plan(PYTHONPATH=str(tmp_path / "site")).rules["train"]


def test_a_clone_is_set_up(tmp_path):
    """In a folder with a space; here, by a Python that notes what it is asked for."""
    folder, note = tmp_path / "my clone", tmp_path / "note"
    folder.mkdir()
    for name in ("Makefile", "requirements.txt", "requirements-demo.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    python = tmp_path / "python"
    makes = '[ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python"'
    python.write_text(f'#!/bin/sh\necho "$@" >>{note}\n{makes}\nexit 0\n')
    python.chmod(0o700)
    made = subprocess.run(
        ["make", f"PYTHON={python}", ".venv/.ready"], cwd=folder, capture_output=True, text=True
    )
    assert made.returncode == 0 and (folder / ".venv" / ".ready").exists(), made.stderr
    asked = [line for line in note.read_text().splitlines() if line.startswith("envs/install.py ")]
    assert asked == [
        "envs/install.py -r requirements.txt",
        "envs/install.py --no-deps -r requirements-demo.txt",
        "envs/install.py --no-deps --editable .",
    ]


@pytest.mark.slow
def test_a_single_job_runs_by_a_python_in_a_folder_with_a_space(tmp_path):
    folder = Folder.new(tmp_path / "my study")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "a venv"], check=True)
    (site,) = (tmp_path / "a venv").glob("lib/python3*/site-packages")
    (site / "all.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    command = [tmp_path / "a venv" / "bin" / "python", "-m", "snakemake", "--cores", "1"]
    run = subprocess.run(
        [*command, "results/tiny/data/tone/train.parquet"], cwd=folder.path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_results_have_a_place_that_git_and_make_leave_alone(tmp_path):
    ignored = subprocess.run(
        ["git", "check-ignore", "results/README.md", "results/mine/tables/combined.parquet"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ignored.stdout == "results/mine/tables/combined.parquet\n"
    shutil.copy(ROOT / "Makefile", tmp_path)
    own = tmp_path / "own"
    for path in (
        "results/README.md",
        "results/mine/table",
        "site/index.html",
        ".venv/bin",
        ".snakemake/log",
        "own/bin",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    subprocess.run(["make", "clean", f"VENV={own}"], cwd=tmp_path, check=True, capture_output=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "own", "results"]
    assert (tmp_path / "results" / "mine" / "table").exists() and (own / "bin").exists()
