"""A hook of the site: explorers of kept studies, and pages of notebooks and public functions."""

import base64
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import functions
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from headspec.explorer.finished import write_explorer
from headspec.explorer.views import STUDY_TABLES

TABLES = Path(__file__).parent.glob("*/tables/*.parquet")
NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
#: with something that an explorer shows
STUDIES = sorted({path.parents[1] for path in TABLES if path.stem in STUDY_TABLES})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the explorer of every study, notebooks and the page of functions."""
    files.append(File.generated(config, "code/functions.md", content=functions.page()))
    with TemporaryDirectory() as folder:
        for study in STUDIES:
            content = write_explorer(study, Path(folder) / "page.html").read_bytes()
            files.append(File.generated(config, f"explorers/{study.name}.html", content=content))
    for path in NOTEBOOKS:
        text, pictures = page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"examples/{name}", content=content))
    return files


def page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook and what its cells show as Markdown, and its pictures by file."""
    parts, pictures = [], dict[str, bytes]()
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            if "data" in output:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(output["data"]["image/png"])
                parts.append(f"![{output['data']['text/plain'][0]}]({file})")
            else:
                parts.append("```text\n" + "".join(output["text"]) + "```")
    return "\n\n".join(parts) + "\n", pictures


def on_page_markdown(markdown: str, page: object, **_: object) -> str:
    """Name the explorers where the site has `<!-- explorers -->`; links to notebooks lead to their pages."""
    links = "\n".join(f"- [{study.name}](explorers/{study.name}.html)" for study in STUDIES)
    for path in NOTEBOOKS:
        markdown = markdown.replace(f"examples/{path.name})", f"examples/{path.stem}.md)")
    return markdown.replace("<!-- explorers -->", links)
