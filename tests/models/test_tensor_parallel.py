"""Models whose heads are divided over two processes (gloo), against whole ones."""

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from support.running import divided

pytestmark = pytest.mark.thorough
PROCESSES = 2


def fill(folder):
    """Write small models, and have two processes write what they compute with them."""
    for name, settings in divided.DIVIDED.items():
        divided.small(name, **settings).save_pretrained(folder / name)
    divided.small("llama", **divided.UNEVEN).save_pretrained(folder / "uneven")
    mp.start_processes(divided.process, (folder,), PROCESSES)


@pytest.fixture
def folder(shared):
    return shared("divided", fill)


@pytest.mark.parametrize("name", divided.DIVIDED)
def test_each_process_gives_what_the_whole_model_gives(folder, name):
    expected = divided.results(divided.small(name, **divided.DIVIDED[name]).eval())
    for rank in range(PROCESSES):
        found = torch.load(folder / f"{name}-{rank}.pt", weights_only=False)
        assert found.keys() == expected.keys()
        for what, values in expected.items():
            np.testing.assert_allclose(found[what], values, rtol=1e-3, atol=1e-5, err_msg=what)


def test_what_cannot_be_done_is_refused_in_a_sentence(folder):
    whole = "its weights are divided over processes; expected a model that each has whole"
    for rank in range(PROCESSES):
        removing, saving, magnitude, uneven = torch.load(folder / f"refusals-{rank}.pt")
        assert removing == f"heads of this llama cannot be removed: {whole}"
        assert saving == f"this llama cannot be saved: {whole}"
        assert magnitude.startswith("score 'magnitude': W_O of 'model.layers.0.self_attn' is not one whole ")
        assert uneven.endswith("or numbers of heads, also of keys, that 2 divides")
