"""Untying: the same function, a table for each use, and nothing else changed."""

import pytest
import torch
from torch import nn

import transfuse
from attending_strangers import WRITTEN, scores

TIED = ("nanoGPT", "llama.c, tied")


@pytest.mark.parametrize("name", TIED)
def test_an_untied_copy_computes_the_same_and_its_stream_rotates(name):
    torch.manual_seed(0)
    model, x = WRITTEN[name].build(), WRITTEN[name].inputs()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    free = transfuse.untied(model)
    torch.testing.assert_close(scores(free(x)), scores(model(x)))
    assert all(torch.equal(model.state_dict()[key], tensor) for key, tensor in before.items())
    more = [sum(tensor.numel() for tensor in each.parameters()) for each in (model, free)]
    table = next(layer.weight for layer in model.modules() if isinstance(layer, nn.Embedding))
    assert more[1] - more[0] == table.numel()
    assert not transfuse.trace(model, x, proof=False).rotating
    assert len(transfuse.trace(free, x).rotating) == 1


class Shared(nn.Module):
    """Two embeddings with one table, which two layers read, and a layer that is there twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(5, 4), nn.Embedding(5, 4)
        self.layer = self.again = nn.Linear(4, 4)
        self.read, self.other = nn.Linear(4, 5, bias=False), nn.Linear(4, 5)
        for each in (self.second, self.read, self.other):
            each.weight = self.first.weight


def test_embeddings_and_modules_that_are_used_twice_stay_shared():
    free = transfuse.untied(Shared())
    assert free.first.weight is free.second.weight
    assert free.read.weight is free.other.weight
    assert free.read.weight is not free.first.weight
    assert free.layer is free.again


def test_a_network_without_ties_is_copied():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    free = transfuse.untied(model)
    assert free is not model
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), free.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore")  # the library warns about its own optional parts
@pytest.mark.long
def test_networks_of_transformers_are_fused_untied_saved_and_loaded(tmp_path):
    transformers_zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")
    import transformers

    row = next(model for model in transformers_zoo.MODELS if model.name == "gpt2")
    models = [transfuse.untied(row.build()) for _ in range(2)]
    assert not models[0].config.tie_word_embeddings
    fusion = transfuse.fuse(models, row.inputs(), correct="none", outputs=lambda result: result.logits)
    assert fusion.layout.rotating
    fusion.model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(**row.inputs()).logits, fusion.model(**row.inputs()).logits)
