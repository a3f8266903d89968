"""What a release says of itself in several places, and the workflows that publish it."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from headspec import __version__
from support.paths import ROOT
from support.running.studies import Folder

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
URLS = PROJECT["urls"]
#: owner and name
ADDRESS = URLS["Repository"].removeprefix("https://github.com/")
OWNER, NAME = ADDRESS.split("/")
#: what names a repository of this name, or its pages and images; the owner is in the group
ADDRESSES = (
    rf"(?:github\.com/|ghcr\.io/|github\(\"|/github/|check-tag v\S+ )([\w.-]+)/{NAME}\b|([\w.-]+)\.github\.io"
)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def tracked() -> list[Path]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.splitlines() if (ROOT / name).is_file()]


def test_the_address_of_the_repository_is_that_of_the_metadata_everywhere():
    """Whoever publishes it changes pyproject.toml, then the lines that this names."""
    found = {}
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # pictures and tables
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for match in re.finditer(ADDRESSES, line):
                if path != Path(__file__) and (match[1] or match[2]) != "snakemake":
                    found[f"{path.relative_to(ROOT)}:{number}"] = match[1] or match[2]
    assert {place: owner for place, owner in found.items() if owner != OWNER} == {}
    named = {place.rpartition(":")[0] for place in found}
    files = {"pyproject.toml", "mkdocs.yml", "CITATION.cff", ".zenodo.json", "workflow/Snakefile"}
    assert files | {"config/README.md", "docs/code/notebook.md", "envs/Containerfile"} <= named
    assert {URLS[name].removeprefix(URLS["Repository"]) for name in ("Changelog", "Issues")} == {
        "/blob/main/CHANGELOG.md", "/issues",
    }  # fmt: skip


def test_the_citation_and_zenodo_say_the_same():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    zenodo = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert cited["title"] == zenodo["title"] and cited["version"] == __version__
    assert cited["license"] == zenodo["license"] == PROJECT["license"]
    assert cited["keywords"] == zenodo["keywords"] == PROJECT["keywords"]
    assert [each["name"] for each in cited["authors"]] == [each["name"] for each in zenodo["creators"]]
    assert (cited["repository-code"], cited["url"]) == (URLS["Repository"], URLS["Documentation"])
    related = {each["identifier"] for each in zenodo["related_identifiers"]}
    assert related == {URLS["Repository"], cited["references"][0]["url"]}
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"\nsite_url: {URLS['Documentation']}\nrepo_url: {URLS['Repository']}\n" in site


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_their_commits(path):
    uses = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert uses and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[\d.]+", each) for each in uses), uses
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for step in job["steps"]:
            for script in re.findall(r"^ *(\.ci/[\w-]+)", step.get("run", ""), re.MULTILINE):
                assert (ROOT / script).stat().st_mode & 0o100, script


def test_one_action_has_one_commit():
    uses = {
        each for path in WORKFLOWS for each in re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    }
    assert len(uses) == len({each.partition("@")[0] for each in uses})


def ci(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / ".ci" / script, *arguments], capture_output=True, text=True)


def test_a_tag_is_of_this_version_and_repository():
    assert ci("check-tag", f"v{__version__}", ADDRESS).returncode == 0
    for arguments, told in {
        ("v9.9.9", ADDRESS): f"tag v9.9.9: expected v{__version__}",
        (f"v{__version__}", "other/fork"): "names another repository than other/fork",
    }.items():
        refused = ci("check-tag", *arguments)
        assert refused.returncode == 1 and told in refused.stderr


def test_the_notes_of_a_release_are_its_part_of_the_changelog():
    notes = ci("release-notes", __version__).stdout
    part = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition(f"\n## [{__version__}]")[2]
    assert notes.strip() == re.split(r"\n## \[", part)[0].partition("\n")[2].strip() != ""
    assert ci("release-notes", "1.0").returncode == 1  # no beginning of a number


def test_the_image_is_that_of_the_release():
    rule = (ROOT / "workflow" / "Snakefile").read_text(encoding="utf-8")
    assert f'container: f"docker://ghcr.io/{ADDRESS}:{{__version__}}"' in rule
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "image=ghcr.io/${GITHUB_REPOSITORY,,}:${GITHUB_REF_NAME#v}" in release
    assert ADDRESS.islower()  # images have no capitals


@pytest.mark.slow
def test_starts_without_apptainer_do_not_look_at_the_image(tmp_path):
    """Results that were made before it was named, or by another release, stay."""
    folder = Folder.new(tmp_path / "study")
    target = "results/tiny/data/tone/train.parquet"
    folder.snakemake(target)
    snakefile = folder.path / "workflow" / "Snakefile"
    text = snakefile.read_text(encoding="utf-8")
    snakefile.write_text(text.replace(":{__version__}", ":another"), encoding="utf-8")
    assert not folder.plan(target).rules


def test_the_notebook_installs_what_it_reads():
    notebook = json.loads((ROOT / "docs" / "examples" / "heads.ipynb").read_text(encoding="utf-8"))
    first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    packages = re.findall(r'"([\w-]+==[\d.]+)"', "".join(first["source"]))
    extras = PROJECT["optional-dependencies"]
    assert len(packages) == 3 and {*packages} <= {*extras["demo"], *extras["models"]}
    assert '"headspec"' in "".join(first["source"])


def test_the_paper_cites_what_it_lists_and_its_length_is_that_of_the_journal():
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    assert {*yaml.safe_load(front)} >= {"title", "tags", "authors", "affiliations", "date", "bibliography"}
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted({*re.findall(r"@(\w+)", body)})
    assert 750 <= len(body.split()) <= 1500
    for picture in re.findall(r"\]\((\S+?\.png)\)", body):
        assert (ROOT / "paper" / picture).exists()
    wanted = [
        "Summary",
        "Statement of need",
        "State of the field",
        "What is new",
        "Acknowledgements",
        "References",
    ]
    headings = re.findall(r"^# (.+)", body, re.M)
    assert [heading for heading in headings if heading in wanted] == wanted
