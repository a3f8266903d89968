"""A small valid config, and what a wrong one is told."""

from typing import Any

import pytest
import yaml

from headspec.config.loading import load
from headspec.errors import ConfigError

VALID: dict[str, Any] = yaml.safe_load("""
study: small
seeds: [0, 1]
models:
  minilm: {source: "package:carrier/model"}
tasks:
  sst2: {source: data/sst2, text_a: sentence, labels: {0: neg, 1: pos}, metrics: [accuracy, f1]}
  qnli: {source: data/qnli, text_a: question, text_b: sentence}
  agnews: {source: data/agnews}
  agpair: {pairs_of: agnews}
  stsb: {source: data/stsb, text_a: a, text_b: b, type: regression}
mixtures:
  pairs: [sst2, qnli]
  groups: {all: [sst2, qnli, agnews]}
  single: [stsb]
""")


def refused(config: dict[str, Any]) -> str:
    """The problems of a config, a line for each."""
    with pytest.raises(ConfigError) as caught:
        load(config)
    return str(caught.value)
