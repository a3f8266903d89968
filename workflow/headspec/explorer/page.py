"""The page: data, style and script in one HTML file that asks for nothing else."""

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from headspec.config.methods import NAMED
from headspec.explorer.glossary import GLOSSARY
from headspec.explorer.sources import Sources, load_tables
from headspec.explorer.values import plain
from headspec.explorer.views import views
from headspec.redaction import cleared

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = ("core.js", "charts.js", "views.js", "heads.js", "measures.js", "page.js")
STYLE = "explorer.css"
LEFT_OUT = (
    "Means over seeds, with the range of seeds for importance; folds, examples, steps of training and single "
    "random orders are left out, and so are measures of heads other than importance, ablation, relevance and "
    "confidence. The Parquet tables have them."
)


def build_page(paths: Iterable[str | Path], config: str = "", unfinished: str = "") -> str:
    """Return the page of a study from its tables, and its config as YAML; it begins with what is
    `unfinished`.
    """
    return page(data(load_tables(paths), config) | {"unfinished": unfinished})


def data(sources: Sources, config: str = "") -> dict[str, Any]:
    """Everything that the page shows."""
    made = {json.dumps(footer.get("versions", {}), sort_keys=True) for footer in sources.footers.values()}
    seeds = {run.seed for run in sources.runs}
    for name in ("dissociation", "heads"):
        seeds |= set(sources.tables[name]["seed"].tolist()) if name in sources.tables else set()
    return {
        "study": sources.study,
        "views": views(sources),
        "methods": list(NAMED),
        "glossary": GLOSSARY,
        "left_out": LEFT_OUT,
        "provenance": {
            "config": config,
            "versions": [json.loads(each) for each in sorted(made)],
            "seeds": [plain(seed) for seed in sorted(seeds)],
            "tables": {name: _record_sha256(footer) for name, footer in sorted(sources.footers.items())},
        },
    }


def page(content: dict[str, Any]) -> str:
    """HTML with `content` as data that no name in it can end, and a policy that allows no request.

    It shows no secrets, such as those in comments of a config.
    """
    content = cleared(content)
    style = (ASSETS / STYLE).read_text(encoding="utf-8")
    script = "".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    policy = (
        f"default-src 'none'; script-src '{_allowed(script)}'; style-src '{_allowed(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(content['study'])}: explorer</title>\n"
        f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
        "<noscript>This page shows its tables by a script, which is switched off.</noscript>\n"
        f'<script type="application/json" id="data">{harmless(content)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def harmless(content: Any) -> str:
    """JSON without a character that means something to HTML or ends a line of a script."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _allowed(text: str) -> str:
    """Source by which a policy allows a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _record_sha256(footer: dict[str, Any]) -> str:
    """First digits of the SHA-256 of the record of a table's job."""
    made_from = footer.get("made_from", footer.get("job", {}))
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
