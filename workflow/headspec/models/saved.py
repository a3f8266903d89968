"""Files of a saved model: model.safetensors, config.json and classifiers.json; loading merges adapters."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml
from safetensors.torch import load_file, save
from torch import nn

from headspec import tables
from headspec.config.sections.model import Model
from headspec.config.sources import ELSEWHERE
from headspec.errors import DamageError, HeadspecError, ModelError
from headspec.models import encoders
from headspec.models.language import LanguageHead, load_language_model
from headspec.models.pretrained import folders, model_files
from headspec.models.pretrained.from_pretrained import location, weights
from headspec.provenance import files

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


#: names of the adapters that `peft` adds to an encoder
TRAINED = re.compile(r"(.+)\.lora_([AB])\.default\.weight")


def adapters(encoder: PreTrainedModel) -> dict[str, nn.Parameter]:
    """Return trained adapters: ``<layer>.A`` (rank, in) and ``<layer>.B`` (out, rank) of adapted layers."""
    found = ((TRAINED.fullmatch(name), parameter) for name, parameter in encoder.named_parameters())
    return {f"{match[1]}.{match[2]}": parameter for match, parameter in found if match}


@torch.no_grad()
def merge_adapters(encoder: PreTrainedModel, trained: Mapping[str, torch.Tensor]) -> None:
    """Add `trained`, named as by `adapters`, to the weights of an encoder without adapters."""
    for layer in (name.removesuffix(".A") for name in trained if name.endswith(".A")):
        module = encoder.get_submodule(layer)
        product = trained[f"{layer}.B"] @ trained[f"{layer}.A"]
        # a Linear is (out, in), GPT's Conv1D (in, out)
        module.weight += product if isinstance(module, nn.Linear) else product.T


def write(
    folder: Path,
    encoder: PreTrainedModel,
    classifiers: nn.Module,
    described: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase | None,
    pretrained: dict[str, str] | None,
    job: Any | None = None,
) -> None:
    """Write model.safetensors, config.json, and last classifiers.json with the SHA-256 of all files.

    classifiers.json also has the record of the `job` that made the model.

    A model that writes texts is saved with its `tokenizer` and the settings of `generate`. `described` has
    pooling, classes, and whether the model is a prompted `language_model`. If the encoder is unchanged,
    except for adapters, `pretrained` is its `encoders.reference`: config.json holds it, and model.safetensors
    holds only ``classifiers.<n>``, ``adapters.<layer>.A`` and ``.B``.
    """
    state: dict[str, torch.Tensor]
    if pretrained:
        state = {f"adapters.{name}": value for name, value in adapters(encoder).items()}
        config = json.dumps({"pretrained": pretrained}, indent=2) + "\n"
    else:
        state, config = _untied(encoder), encoder.config.to_json_string()
    state |= {f"classifiers.{name}": value for name, value in classifiers.state_dict().items()}
    state = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    weights = save(state, metadata={"format": "pt"})
    contents = {"model.safetensors": weights, "config.json": config.encode()} | _writing(encoder, tokenizer)
    for name, data in contents.items():
        with files.atomic(folder / name) as path:
            path.write_bytes(data)
    digests = {name: sha256(data).hexdigest() for name, data in contents.items()}
    _describe(folder, {**described, "sha256": digests}, job)


def read(folder: Path, **placed: Any) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the arguments of `MultiTask` for a saved model, and the state of its classifiers.

    `placed`, as in `from_pretrained.load`, are for causal language models.

    Raises ModelError if a headspec before 0.2 saved the model, or its pretrained encoder cannot be loaded;
    DataError if classifiers.json cannot be read, or there is no such encoder; DamageError if a file is not as
    `write` left it, the model was saved in another folder, or the encoder has changed.
    """
    description = _verified_description(folder)
    arguments = {name: description[name] for name in ("pooling", "classes")}
    masked = description["pooling"] == "mask"
    if masked or description.get("language_model"):
        found = _pretrained(folder)
        assert found  # such a model is not trained
        model, key = found
        path, where = folders.folder(model, key, "weights"), f"{key}.source: '{model.source}'"
        whole = load_language_model(path, where, not masked, **weights(model), **({} if masked else placed))
        arguments |= {"encoder": whole.base_model, "head": LanguageHead(whole)}
    else:
        arguments["encoder"] = _encoder(folder, description)
    if "tokenizer_config.json" in description["sha256"]:
        from transformers import AutoTokenizer  # slow to import, and rarely needed

        with model_files.alone(folder, description["sha256"]) as own:
            loading = AutoTokenizer.from_pretrained
            arguments["tokenizer"] = loading(**location(own), trust_remote_code=False)
    return arguments, _part(load_file(folder / "model.safetensors"), "classifiers.")


def read_encoder(folder: Path) -> tuple[PreTrainedModel, str]:
    """Return encoder and pooling of a saved model, without its classifiers; raises the errors of `read`."""
    description = _verified_description(folder)
    return _encoder(folder, description), description["pooling"]


def paths(folder: Path) -> list[Path]:
    """Return the files of the model that `write` has just written to `folder`."""
    described = json.loads((folder / "classifiers.json").read_text())
    return [folder / "classifiers.json", *(folder / name for name in described["sha256"])]


def adopt(saved: Path, folder: Path, job: Any | None = None) -> None:
    """Save the model at `saved` in `folder` as well, for `job`, by links; raises as `read` for bad files."""
    description = _verified_description(saved)
    for name in description["sha256"]:
        with files.atomic(folder / name) as path:
            files.link(saved / name, path)
    _describe(folder, description, job)


def _verified_description(folder: Path) -> dict[str, Any]:
    """Check all files of the model and return the content of classifiers.json."""
    path = folder / "classifiers.json"
    if not path.exists() and (folder / "heads.json").exists():
        raise ModelError(
            f"{folder}: saved by a headspec before 0.2, which wrote no classifiers.json; train the run again"
        )
    again = f"Delete the folder {folder} and start snakemake again, which trains the run again"
    files.verify(path, again)
    description: dict[str, Any] = json.loads(path.read_text())
    files.verify_place(folder, [description["folder"]], again)
    for name, digest in description["sha256"].items():
        if not (folder / name).exists():
            raise DamageError(f"{folder / name}: missing. {again}")
        if files.sha256(folder / name) != digest:
            raise DamageError(f"{folder / name}: damaged: its content differs from what was written. {again}")
    return description


def _describe(folder: Path, description: dict[str, Any], job: Any | None) -> None:
    """Write classifiers.json."""
    if job:
        description["job"] = tables.record_text(tables.job_record(job))
    content = description | {"folder": str(folder), "file_sha256": files.PLACEHOLDER}
    with files.atomic(folder / "classifiers.json") as path:
        path.write_text(json.dumps(content, indent=2) + "\n")
        files.embed_sha256(path)


def _pretrained(folder: Path) -> tuple[Any, str] | None:
    """Return the pretrained model in a saved model's config.json, and its key there; None without one.

    It may be at its old path or at one in the study's config. Raises DamageError if none has the recorded
    SHA-256; for the old path, the errors of `encoders.reference`.
    """
    path = folder / "config.json"
    pretrained = json.loads(path.read_text()).get("pretrained")
    if pretrained is None:
        return None
    key, digest = f"{path}: pretrained", pretrained["sha256"]
    model, *moved = (
        Model.from_params({**pretrained, "source": source, "sha256": None})
        for source in (pretrained["source"], *_sources(folder))  # its old path, and where it may be now
    )
    for each in (model, *moved):
        with contextlib.suppress(HeadspecError, OSError):
            if encoders.reference(each, key)["sha256"] == digest:
                return each, key
    if (found := encoders.reference(model, key)["sha256"]) != digest:
        raise DamageError(
            f"{key}.source: '{model.source}' is not the encoder that the classifiers were trained on; its "
            f"config and weights have digest {found[:16]}, expected {digest[:16]}. Put it "
            f"back, or delete the folder {folder} and start snakemake again, which trains the run again"
        )
    return model, key


def _sources(folder: Path) -> list[str]:
    """Return the local paths of models in the config of a saved model's study; none if it cannot be read."""
    results = next((each for each in folder.parents if each.parent.name == "results"), folder)
    with contextlib.suppress(OSError, yaml.YAMLError, AttributeError, TypeError, RecursionError):
        models = yaml.safe_load((results / "config.yaml").read_text())["models"].values()
        sources = [each.get("source") for each in models]
        return [each for each in sources if isinstance(each, str) and not each.startswith(ELSEWHERE)]
    return []


def _encoder(folder: Path, description: Mapping[str, Any]) -> PreTrainedModel:
    """Return the encoder of a saved model, or its pretrained one with adapters merged."""
    found = _pretrained(folder)
    if found is None:
        with model_files.alone(folder, description["sha256"]) as own:
            return encoders.pretrained(own)
    encoder = encoders.load(*found)
    merge_adapters(encoder, _part(load_file(folder / "model.safetensors"), "adapters."))
    return encoder


def _part(state: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def _untied(encoder: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the state of an encoder without tied weights; loading ties them again."""
    state = dict(encoder.state_dict())
    for name, source in getattr(encoder, "all_tied_weights_keys", {}).items():
        if name in state and source in state and state[name].data_ptr() == state[source].data_ptr():
            del state[name]
    return state


def _writing(encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> dict[str, bytes]:
    """Return the files, name: content, that a model needs to write texts; none without a tokenizer."""
    if tokenizer is None:
        return {}
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer.save_pretrained(temporary)
        if encoder.can_generate():  # settings of a prompted model are beside its weights
            encoder.generation_config.save_pretrained(temporary)
        return {path.name: path.read_bytes() for path in sorted(Path(temporary).iterdir())}
