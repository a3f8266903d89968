"""The workflow as a module of another one, from a repository."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from headspec import tables
from support.paths import ROOT
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

PAGE = (ROOT / "config" / "README.md").read_text()
(FLAGS,) = re.findall(r"snakemake --cores 8 (.+)", PAGE)


@pytest.fixture
def study(tmp_path) -> Folder:
    """A folder with a config, texts and a model, and the Snakefile of the page, for a repository on disk."""
    repository = Folder.new(tmp_path / "repository").path
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"], ["tag", "v1"]):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *identity, *command], cwd=repository, check=True)
    path = tmp_path / "study"
    for name in ("texts", "models"):
        shutil.copytree(repository / name, path / name)
    (snakefile,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    hosted = re.search(r"github\(.+\)", snakefile)[0]
    (path / "Snakefile").write_text(
        snakefile.replace(hosted, f'"git+file://{repository}/workflow/Snakefile@v1"')
    )
    (path / "config").mkdir()
    config = CONFIG | {"seeds": [0], "methods": ["tuned"], "mixtures": {"pairs": ["tone", "topic"]}}
    (path / "config" / "config.yaml").write_text(yaml.safe_dump(config))
    return Folder(path)


def test_a_study_runs_by_a_module_of_a_repository(study):
    study.snakemake(*FLAGS.split())
    assert len(tables.read(study.results / "tables" / "combined.parquet"))
    assert "Nothing to be done" in study.snakemake(*FLAGS.split())
    assert not (study.path / "workflow").exists()
    config = study.path / "config" / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"figures": {"dpi": 50}}))
    rules = study.plan(*FLAGS.split()).rules
    assert rules and all(rule.startswith("figure_") for rule in rules)


def test_the_catalogue_names_the_same_flags():
    catalogue = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())
    assert set(catalogue["usage"]["mandatory-flags"]["flags"].split()) == set(FLAGS.split())
    profile = yaml.safe_load((ROOT / "profiles" / "default" / "profile.yaml").read_text())
    assert f"--rerun-triggers {' '.join(profile['rerun-triggers'])}" in FLAGS
    assert f"--max-checksum-file-size {profile['max-checksum-file-size']}" in FLAGS


def test_the_config_of_the_catalogue_is_that_of_the_demo():
    assert (ROOT / "config" / "config.yaml").resolve() == Path(ROOT / "config.yaml").resolve()
