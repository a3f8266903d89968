"""Install packages into the environment of this Python: ``python envs/install.py -r requirements.txt``.

By uv, in a fraction of pip's time, with the indexes, versions and certificates that pip is told of; by pip
where uv cannot be had or fails.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
#: settings of pip, the variable of uv for each, and what divides its values
SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
}
#: settings that say where packages are, so that uv must not choose builds of torch by itself
PLACES = {"index-url", "extra-index-url", "find-links", "no-index"}


def settings(listed: str) -> dict[str, str]:
    """Return pip's settings from the output of ``pip config list``; variables of the environment win."""
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    return found


def variables(found: dict[str, str]) -> dict[str, str]:
    """Return the variables by which uv does as pip does with these settings."""
    translated = {SETTINGS[name]: value for name, value in found.items() if name in SETTINGS}
    # pip takes the best version of all indexes, uv that of the first that has the package
    return {"UV_INDEX_STRATEGY": "unsafe-best-match"} | {
        name: divider.join(value.split()) for (name, divider), value in translated.items()
    }


def by_uv(arguments: list[str]) -> bool:
    """Install by uv, which is installed first if it is missing; return whether this worked."""
    beside = str(Path(sys.executable).with_name("uv"))
    if not (uv := shutil.which(beside) or shutil.which("uv")):
        subprocess.run([*PIP, "install", "--quiet", "uv>=0.13"], stderr=subprocess.DEVNULL)
        uv = shutil.which(beside)
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True).stdout
    found = settings(listed)
    chosen = [] if PLACES & {*found} else ["--torch-backend", "auto"]  # a CPU build without a GPU's driver
    command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, *chosen, *arguments]
    return uv is not None and not subprocess.run(command, env=variables(found) | os.environ).returncode


if __name__ == "__main__":
    if not by_uv(sys.argv[1:]):
        sys.exit(subprocess.run([*PIP, "install", "--quiet", *sys.argv[1:]]).returncode)
