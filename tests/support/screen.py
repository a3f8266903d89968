"""Compare README's screen with that of a finished demo: ``python -m support.screen results/demo``.

Floating-point arithmetic differs between processors, so it is compared where README says it was made.
"""

import re
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT


def shown() -> tuple[str, str]:
    """The processor that README names above its screen, and the screen."""
    text = (ROOT / "README.md").read_text()
    found = re.search(
        r"ends with a screen that begins \((?P<processor>[^;)]+).*?```text\n(?P<screen>.+?)```", text, re.S
    )
    assert found, "README.md has no screen of the demo"
    return found["processor"], found["screen"].rstrip()


def here() -> str:
    """The processor of this machine, in README's words."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = "AMD EPYC" if "AMD EPYC" in info else "Intel Xeon" if "Xeon" in info else "another processor"
    features = {"AMX": "amx_bf16", "AVX-512": "avx512_bf16"}
    return f"{name} with {next((name for name, flag in features.items() if flag in info), 'AVX2')}"


def main() -> None:
    processor, expected = shown()
    if processor != here():
        print(f"README's screen is of {processor}; this is {here()}, so it is not compared")
        return
    command = [sys.executable, "-m", "headspec", "summary", sys.argv[1]]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    if not said.startswith(expected):
        sys.exit(f"README.md has another screen than this demo:\n{said}")


if __name__ == "__main__":
    main()
