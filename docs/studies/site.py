"""A hook of the site: it publishes the explorers of the studies that are kept here."""

from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from headspec.explorer.finished import write_explorer
from headspec.explorer.sources import STUDY_TABLES

TABLES = Path(__file__).parent.glob("*/tables/*.parquet")
#: with something that an explorer shows
STUDIES = sorted({path.parents[1] for path in TABLES if path.stem in STUDY_TABLES})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the explorer of every study."""
    with TemporaryDirectory() as folder:
        for study in STUDIES:
            content = write_explorer(study, Path(folder) / "page.html").read_bytes()
            files.append(File.generated(config, f"explorers/{study.name}.html", content=content))
    return files


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Name the explorers where the site has `<!-- explorers -->`."""
    links = "\n".join(f"- [{study.name}](explorers/{study.name}.html)" for study in STUDIES)
    return markdown.replace("<!-- explorers -->", links)
