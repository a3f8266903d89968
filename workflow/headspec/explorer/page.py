"""The page: data, style and script in one self-contained HTML file."""

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from headspec.config.methods import NAMED
from headspec.explorer.study_tables import StudyTables, json_value
from headspec.explorer.views import VIEWS, contents, load_tables
from headspec.redaction import cleared
from headspec.statistics.chance import SAYS

#: in the order of the page
GLOSSARY = {
    "D, dissociation": "How much more of its unpruned metric a task loses when its own most important heads "
    "are pruned than when those of the other tasks are. For a mixture, the mean over its tasks; 0 if it does "
    "not matter whose heads are pruned.",
    "mixture": "Tasks that one model learns together.",
    "tuned, lora, frozen, prompted": "Training changes all weights, adapters, only classifiers, or "
    "nothing. Frozen and prompted models are the control: their dissociation is not a result of training.",
    "importance": "How fast a task's loss changes as a head's output is scaled: the mean absolute derivative "
    "over training examples.",
    "own heads": "The heads most important for a task; the slider sets how many.",
    "random": "The same number of heads, drawn at random: the effect of pruning any heads.",
    "[ ]": "An interval, of 95 % unless the config says otherwise, over other validation examples and, from "
    "three seeds on, other seeds.",
    "p": "How often chance alone would make a difference at least as large, corrected for the tests of its "
    "kind in the study. From three seeds on it is about other seeds and examples; p of these runs, with one "
    "or two, says nothing about other seeds.",
    "double, single": "All tasks of a mixture, or some of them, lose clearly more without their own heads. "
    "Distinct: double, and the mean D reaches the study's threshold.",
    "inverted, none": "No task loses clearly more without its own heads; inverted if some lose clearly less.",
    "chance, †, × and ↓": "A constant prediction would be as good. †: in some pruned model, so D means "
    "little. ×: without pruning, too; such a model learnt nothing and counts in no finding. ↓: it is "
    "worse than every constant prediction, as where labels are swapped, and counts in no finding either.",
    "similarity": "How similar two tasks are by a measure: of their texts, of the model's states, or of what "
    "their losses are sensitive to; at most 1.",
    "r": "Correlation of D with similarity over pairs of tasks; its p permutes the tasks (Mantel test).",
    "IAT": "The last part of training, repeated so that a task's examples update only its own heads.",
    "points": "Differences of metrics in per cent: from 80 % to 82 % is 2 points.",
}


ASSETS = Path(__file__).with_name("assets")
#: scripts before and after those of the views
SCRIPTS, LAST = ("core.js", "charts.js", "shared.js"), "page.js"
STYLE = "explorer.css"
LEFT_OUT = (
    "Means over seeds, with the range of seeds for importance; folds, examples, steps of training and single "
    "random orders are left out, and so are measures of heads other than importance, ablation, relevance and "
    "confidence. The Parquet tables have them."
)


def build_page(paths: Iterable[str | Path], config: str = "", unfinished: str = "") -> str:
    """Return the page of a study from its tables and its config as YAML; `unfinished` is shown first."""
    return page(data(load_tables(paths), config) | {"unfinished": unfinished})


def data(study: StudyTables, config: str = "") -> dict[str, Any]:
    """Return everything that the page shows."""
    made = {json.dumps(footer.get("versions", {}), sort_keys=True) for footer in study.footers.values()}
    seeds = {run.seed for run in study.runs}
    for name in ("dissociation", "heads"):
        frame = study.table(name)
        seeds |= set() if frame is None else set(frame["seed"].tolist())
    return {
        "study": study.name,
        "pages": {name: view.title for name, view in VIEWS.items()},
        "views": contents(study),
        "methods": list(NAMED),
        "marks": SAYS,
        "glossary": GLOSSARY,
        "left_out": LEFT_OUT,
        "provenance": {
            "config": config,
            "versions": [json.loads(each) for each in sorted(made)],
            "seeds": [json_value(seed) for seed in sorted(seeds)],
            "tables": {name: _record_sha256(footer) for name, footer in sorted(study.footers.items())},
        },
    }


def page(content: dict[str, Any]) -> str:
    """Return HTML with `content` as escaped data, and a content security policy that allows no requests.

    Secrets, such as in comments of a config, are masked.
    """
    content = cleared(content)
    style = (ASSETS / STYLE).read_text(encoding="utf-8")
    views = sorted((ASSETS / "views").glob("*.js"))
    scripts = [*(ASSETS / name for name in SCRIPTS), *views, ASSETS / LAST]
    script = "".join(path.read_text(encoding="utf-8") for path in scripts)
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
        "<noscript>This page needs JavaScript to show its tables.</noscript>\n"
        f'<script type="application/json" id="data">{harmless(content)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def harmless(content: Any) -> str:
    """Return JSON in which characters that are special in HTML or end lines in scripts are escaped."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _allowed(text: str) -> str:
    """Return the source expression by which the policy allows a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _record_sha256(footer: dict[str, Any]) -> str:
    """Return the first 16 digits of the SHA-256 of a table's job record."""
    made_from = footer.get("made_from", footer.get("job", {}))
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
