"""The figures of one model in the head atlas, with their captions, on one page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

#: kind of figure: heading
KINDS = {
    "heads": "Roles and importance",
    "ablation": "Every head ablated alone",
    "ranked": "Pruning in the order of every measure",
    "agreement": "Agreement of measures",
    "confidence": "Confidence, with and without separators",
    "differences": "Differences between tasks",
    "change": "Before and after",
}
BELIEVE = "Which measure to believe"
STYLE = """\
body { margin: 2rem auto; max-width: 100rem; padding: 0 1.5rem; }
body { font: 1rem/1.5 system-ui, sans-serif; color: #222; background: #fff; }
h1, h2, h3 { line-height: 1.2; font-weight: 600; }
h2 { margin-top: 3rem; border-bottom: 1px solid #bbb; }
nav a { margin-right: 1.2rem; }
.row { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-end; }
figure { margin: 0; }
img { display: block; max-width: 100%; height: auto; }
figcaption { font-weight: 600; color: #555; }
.caption { max-width: 50rem; font-size: .85rem; color: #444; }"""


def page(
    study: str,
    model: str,
    groups: Sequence[tuple[str, str, Sequence[str]]],
    captions: Mapping[str, str],
    kind: str,
) -> str:
    """HTML that refers to figures in the same folder: a section per mixture, methods beside one another.

    Parameters
    ----------
    groups : mixture, kind of figure, and its methods, those of a mixture together
    captions : kind of figure, `believe` included: its caption for Snakemake's report
    kind : ending of the figures' files
    """
    mixtures = list(dict.fromkeys(mixture for mixture, *_ in groups))
    links = "".join(f'<a href="#{escape(mixture)}">{escape(mixture)}</a>' for mixture in mixtures)
    body = [
        f"<h1>Attention heads of {escape(model)}, study {escape(study)}</h1>",
        f"<nav>{links}</nav>" if len(mixtures) > 1 else "",
        f"<h2>{BELIEVE}</h2>",
        _image(f"believe.{kind}", BELIEVE),
        caption(captions["believe"], {}),
    ]
    for mixture in mixtures:
        body.append(f'<h2 id="{escape(mixture)}">{escape(mixture)}</h2>')
        for _, name, methods in (group for group in groups if group[0] == mixture):
            figures = "".join(
                f"<figure><figcaption>{escape(method)}</figcaption>"
                + _image(f"{name}.{model}.{mixture}.{method}.{kind}", f"{KINDS[name]}, {mixture}, {method}")
                + "</figure>"
                for method in methods
            )
            named = {"model": model, "mixture": mixture, "method": ", ".join(methods)}
            body += [f"<h3>{KINDS[name]}</h3>", f'<div class="row">{figures}</div>']
            body.append(caption(captions[name], named))
    title = f"{escape(study)}: {escape(model)}"
    head = f'<meta charset="utf-8"><title>{title}</title><style>\n{STYLE}\n</style>'
    lines = ["<!doctype html>", '<html lang="en">', f"<head>{head}</head>", "<body>", *filter(None, body)]
    return "\n".join([*lines, "</body>", "</html>", ""])


def _image(name: str, text: str) -> str:
    return f'<img src="{escape(name)}" alt="{escape(text)}" loading="lazy">'


def caption(text: str, wildcards: Mapping[str, str]) -> str:
    """A caption as HTML: paragraphs with bold and italic words, and the values of wildcards."""
    text = re.sub(r"\{\{ snakemake\.wildcards\.(\w+) \}\}", lambda match: wildcards[match[1]], text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text, quote=False), flags=re.DOTALL)
    text = re.sub(r"\*(.+?)\*", r"<i>\1</i>", text, flags=re.DOTALL)
    paragraphs = "".join(f"<p>{part.strip()}</p>" for part in text.split("\n\n"))
    return f'<div class="caption">{paragraphs}</div>'
