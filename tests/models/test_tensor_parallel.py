"""Models whose heads are divided over two processes (gloo), against whole ones."""

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from support.running import divided
from support.tiers import cases

pytestmark = pytest.mark.slow
PROCESSES = 2


@pytest.fixture
def divided_folder(shared):
    """A function of a name: the folder with a small model, and with what two processes compute with it."""

    def fill(name, folder):
        divided.small(name, **divided.DIVIDED[name]).save_pretrained(folder / name)
        if name == "llama":
            divided.small(name, **divided.UNEVEN).save_pretrained(folder / "uneven")
        mp.start_processes(divided.process, (folder, name), PROCESSES)

    return lambda name: shared(f"divided {name}", lambda folder: fill(name, folder))


@pytest.mark.parametrize("name", cases(divided.DIVIDED, lambda name: name == "llama"))
def test_each_process_gives_what_the_whole_model_gives(divided_folder, name):
    expected = divided.results(divided.small(name, **divided.DIVIDED[name]).eval())
    for rank in range(PROCESSES):
        found = torch.load(divided_folder(name) / f"results-{rank}.pt", weights_only=False)
        assert found.keys() == expected.keys()
        for what, values in expected.items():
            np.testing.assert_allclose(found[what], values, rtol=1e-3, atol=1e-5, err_msg=what)


def test_what_cannot_be_done_is_refused_in_a_sentence(divided_folder):
    whole = "its weights are divided over processes; expected a model that each has whole"
    for rank in range(PROCESSES):
        removing, saving, magnitude, uneven = torch.load(divided_folder("llama") / f"refusals-{rank}.pt")
        assert removing == f"heads of this llama cannot be removed: {whole}"
        assert saving == f"this llama cannot be saved: {whole}"
        assert magnitude.startswith("score 'magnitude': W_O of 'model.layers.0.self_attn' is not one whole ")
        assert uneven.endswith("or numbers of heads, also of keys, that 2 divides")
