"""Data sets of the Hugging Face hub, or of its cache."""

import functools
from pathlib import Path
from typing import Any

from headspec.config.sources import COMMIT
from headspec.errors import DataError, MissingError, listing


@functools.cache
def hub_dataset(source: str, subset: str | None, key: str) -> Any:
    """Return all splits of a data set from the hub or its cache, as a ``DatasetDict``.

    Raises MissingError if it is not cached and there is no connection, DataError if it is damaged or of
    another commit.
    """
    import datasets

    name, _, revision = source.removeprefix("hub:").partition("@")
    try:  # for a bare name, `datasets` would prefer a folder of this name
        loaded = datasets.load_dataset(f"hf://datasets/{name}", subset, revision=revision or None)
    except ConnectionError:
        raise MissingError(
            f"{key}: '{source}' is not in the cache {datasets.config.HF_DATASETS_CACHE} (set by HF_HOME) and "
            "cannot be downloaded: no connection to the hub"
        ) from None
    except Exception as error:  # the errors of datasets have no common base class
        reason = str(error).split("\n")[0][:300]
        raise DataError(f"{key}: '{source}' cannot be loaded ({reason})") from None
    # without a connection, `datasets` takes its last commit, whatever the revision
    commits = {Path(file["filename"]).parent.name for split in loaded.values() for file in split.cache_files}
    if COMMIT.fullmatch(revision) and (others := {*filter(COMMIT.fullmatch, commits)} - {revision}):
        raise DataError(
            f"{key}: '{source}' is not in the cache {datasets.config.HF_DATASETS_CACHE}, which has commit "
            f"{listing(sorted(others))}, and the hub does not answer; expected a connection"
        )
    return loaded
