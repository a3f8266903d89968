"""The Hugging Face hub: whether it answers, and how to use its libraries without it."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 5  # seconds to wait for an answer


def unreachable() -> str:
    """Return why the hub cannot be reached, tried once; empty if it can."""
    from huggingface_hub import constants

    return "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else _asked(constants.ENDPOINT)


@functools.cache
def _asked(endpoint: str) -> str:
    from huggingface_hub.utils import get_session

    try:
        get_session().head(endpoint, timeout=SECONDS)
    except Exception as error:  # the HTTP library, and so its errors, differs between versions
        return str(error).split("\n")[0]
    return ""


@contextmanager
def asked_once(source: str | None) -> Iterator[None]:
    """Let the hub's libraries only read caches if it is unreachable; they would retry for a minute."""
    if not str(source).startswith("hub:") or not unreachable():
        yield
        return
    import datasets
    from huggingface_hub import constants

    modules = constants, datasets.config
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
