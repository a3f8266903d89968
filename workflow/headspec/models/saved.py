"""The files of a saved model: model.safetensors, config.json and classifiers.json."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save
from torch import nn

from headspec import files
from headspec.config.stage_settings import section
from headspec.errors import DamageError, EncoderError
from headspec.models import encoders
from headspec.models.adapters import adapters, merge
from headspec.models.language.head import LanguageHead
from headspec.models.language.whole import language_model
from headspec.models.pretrained import folders
from headspec.tasks.classes import Classes

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass
class Saved:
    """What a folder holds.

    Attributes
    ----------
    pooling, classes, head, tokenizer : of `headspec.models.multitask.MultiTask`
    classifiers : the state of its classifiers
    """

    encoder: PreTrainedModel
    pooling: str
    classes: dict[str, Classes]
    head: LanguageHead | None
    tokenizer: PreTrainedTokenizerBase | None
    classifiers: dict[str, torch.Tensor]


def write(
    folder: Path,
    encoder: PreTrainedModel,
    classifiers: nn.Module,
    described: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase | None,
    origin: dict[str, str] | None,
) -> None:
    """Write the encoder and ``classifiers.<n>`` to model.safetensors, its config, and classifiers.json.

    A model that writes texts has its settings for that and its tokenizer there, too. The last file,
    classifiers.json, has the digests of all.

    Parameters
    ----------
    described : pooling, classes, and whether the model is a prompted `language_model`
    tokenizer : of a model that writes texts
    origin : of an encoder that is as it was loaded but for adapters (`encoders.origin`): config.json
        points there, and model.safetensors has the classifiers, and ``adapters.<layer>.A`` and ``.B``
    """
    state: dict[str, torch.Tensor]
    if origin:
        state = {f"adapters.{name}": value for name, value in adapters(encoder).items()}
    else:
        state = _untied(encoder)
    state |= {f"classifiers.{name}": value for name, value in classifiers.state_dict().items()}
    state = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    config = (
        json.dumps({"pretrained": origin}, indent=2) + "\n" if origin else encoder.config.to_json_string()
    )
    contents = {
        "model.safetensors": save(state, metadata={"format": "pt"}),
        "config.json": config.encode(),
    } | _writing(encoder, tokenizer)
    for name, data in contents.items():
        with files.atomic(folder / name) as path:
            path.write_bytes(data)
    digests = {name: sha256(data).hexdigest() for name, data in contents.items()}
    _describe(folder, {**described, "sha256": digests})


def read(folder: Path) -> Saved:
    """The model that `write` has written there.

    Raises
    ------
    EncoderError
        It has no classifiers.json, or the encoder that it points to cannot be loaded.
    DamageError
        A file is not as `write` left it, or the model was saved in another folder; or the encoder that it
        points to is another one now.
    """
    description, head = _description(folder), None
    masked = description["pooling"] == "mask"
    if masked or description.get("language_model"):
        origin = _origin(folder)
        assert origin  # nothing trains such a model
        where, dtype = f"{origin[1]}.source: '{origin[0].source}'", getattr(origin[0], "dtype", "fp32")
        whole = language_model(folders.folder(*origin), where, not masked, dtype)
        encoder, head = whole.base_model, LanguageHead(whole)
    else:
        encoder = _encoder(folder)
    tokenizer = _tokenizer(folder) if "tokenizer_config.json" in description["sha256"] else None
    classifiers = _part(load_file(folder / "model.safetensors"), "classifiers.")
    return Saved(encoder, description["pooling"], description["classes"], head, tokenizer, classifiers)


def read_encoder(folder: Path) -> tuple[PreTrainedModel, str]:
    """Encoder and pooling of a saved model, without its classifiers; raises as `read`."""
    pooling = _description(folder)["pooling"]
    return _encoder(folder), pooling


def paths(folder: Path) -> list[Path]:
    """The files of the model that `write` has just written there."""
    described = json.loads((folder / "classifiers.json").read_text())
    return [folder / "classifiers.json", *(folder / name for name in described["sha256"])]


def adopt(saved: Path, folder: Path) -> None:
    """Save the model at `saved` in `folder` too, without a copy of its weights; raises as `read`."""
    description = _description(saved)
    for name in description["sha256"]:
        with files.atomic(folder / name) as path:
            files.link(saved / name, path)
    _describe(folder, description)


def _description(folder: Path) -> dict:
    """The pooling and classes of a saved model, whose files are as they were written."""
    path = folder / "classifiers.json"
    if not path.exists() and (folder / "heads.json").exists():
        raise EncoderError(
            f"{folder}: saved by a headspec before 0.2, which wrote no classifiers.json; train the run again"
        )
    again = f"Delete the folder {folder} and start snakemake again, which trains the run again"
    files.verify(path, again)
    description = json.loads(path.read_text())
    files.verify_place(folder, [description["folder"]], again)
    for name, digest in description["sha256"].items():
        if not (folder / name).exists():
            raise DamageError(f"{folder / name}: missing. {again}")
        if files.sha256(folder / name) != digest:
            raise DamageError(f"{folder / name}: damaged, its content is not what was written. {again}")
    return description


def _describe(folder: Path, description: dict) -> None:
    """Write the file that `_description` reads."""
    with files.atomic(folder / "classifiers.json") as path:
        path.write_text(
            json.dumps(description | {"folder": str(folder), "file_sha256": files.PLACEHOLDER}, indent=2)
            + "\n"
        )
        files.embed_sha256(path)


def _origin(folder: Path) -> tuple[Any, str] | None:
    """The pretrained model that a saved model's config.json points to, and that key; None if to none."""
    path = folder / "config.json"
    origin = json.loads(path.read_text()).get("pretrained")
    if origin is None:
        return None
    key, model = f"{path}: pretrained", section(origin, sha256=None, pooling="first")
    if (found := encoders.origin(model, key)["sha256"]) != origin["sha256"]:
        raise DamageError(
            f"{key}.source: '{model.source}' is not the encoder that the classifiers were trained on; its "
            f"config and weights have digest {found[:16]}, expected {origin['sha256'][:16]}. Put it "
            f"back, or delete the folder {folder} and start snakemake again, which trains the run again"
        )
    return model, key


def _encoder(folder: Path) -> PreTrainedModel:
    """The encoder of a saved model, or the pretrained one that its config.json points to, adapters merged."""
    origin = _origin(folder)
    if origin is None:
        return encoders.pretrained(folder)
    encoder = encoders.load(*origin)[0]
    merge(encoder, _part(load_file(folder / "model.safetensors"), "adapters."))
    return encoder


def _part(state: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _untied(encoder: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The state of an encoder, each tensor once: loading ties those that share their numbers."""
    state = dict(encoder.state_dict())
    for name, source in getattr(encoder, "all_tied_weights_keys", {}).items():
        if name in state and source in state and state[name].data_ptr() == state[source].data_ptr():
            del state[name]
    return state


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a saved model."""
    from transformers import AutoTokenizer  # slow to import, and only needed here

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _writing(encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> dict[str, bytes]:
    """Name: content of the files that a model needs to write texts."""
    if tokenizer is None:
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer.save_pretrained(temporary)
        encoder.generation_config.save_pretrained(temporary)
        return {path.name: path.read_bytes() for path in sorted(Path(temporary).iterdir())}
