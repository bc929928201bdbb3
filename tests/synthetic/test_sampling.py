"""Sampled inputs: language models write texts by their own probabilities, by equal shares; no other networks do."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import transfuse
from transfuse.modules import Arguments
from transfuse.synthetic.sampling import Language, sampled_inputs

TOKENS, PLACES = 5, 6
X = torch.randint(TOKENS, (3, PLACES), generator=torch.Generator().manual_seed(0))


class Chain(nn.Module):
    """Scores of the next token that depend on the last one alone: a Markov chain."""

    def __init__(self, scores):
        super().__init__()
        self.embed, self.read = nn.Embedding(TOKENS, TOKENS), nn.Linear(TOKENS, TOKENS)
        with torch.no_grad():
            self.embed.weight.copy_(torch.eye(TOKENS))
            self.read.weight.copy_(torch.as_tensor(scores).T)
            self.read.bias.zero_()

    def forward(self, tokens, mask=None):
        read = self.read(self.embed(tokens))
        return read if mask is None else read * mask[..., None]


class OneLength(Chain):
    """A network that reads texts of one length only."""

    def forward(self, tokens):
        if tokens.shape[1] != PLACES:
            raise RuntimeError("texts of another length")
        return super().forward(tokens)


class LooksAhead(Chain):
    """Scores that depend on all tokens of a text."""

    def forward(self, tokens):
        return super().forward(tokens) + self.embed(tokens).mean(1, keepdim=True)


class Remembers(Chain):
    """Scores that depend on the sum of all tokens so far, which the network remembers if it is asked to."""

    def __init__(self, scores, forgets=0.0):
        super().__init__(scores)
        self.forgets, self.read_tokens = forgets, 0

    def forward(self, tokens, use_cache=False, past_key_values=None):
        self.read_tokens += tokens.numel()
        seen = self.embed(tokens).cumsum(1)
        seen = seen if past_key_values is None else seen + (1 - self.forgets) * past_key_values
        return {"scores": self.read(seen), "past_key_values": seen[:, -1:] if use_cache else None}


def steps(by):
    """A chain that goes on by so many tokens, almost always."""
    return Chain(30.0 * torch.eye(TOKENS).roll(by, 1))


def texts_of(models, example=X, **options):
    language = Language.of(models[0], Arguments.of(example))
    return torch.cat([batch[0][0] for batch in sampled_inputs(models, language, **options).data])


def test_texts_are_drawn_by_the_probabilities_of_the_network():
    model = Chain(torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1)))
    texts = texts_of([model], samples=4000)
    pairs = torch.stack([texts[:, :-1].flatten(), texts[:, 1:].flatten()])
    counts = torch.zeros(TOKENS, TOKENS).index_put_(tuple(pairs), torch.ones(pairs.shape[1]), accumulate=True)
    chances = model(torch.arange(TOKENS)[None])[0].softmax(-1)
    torch.testing.assert_close(counts / counts.sum(1, keepdim=True), chances, atol=0.03, rtol=0)


def test_first_tokens_are_any():
    counts = texts_of([steps(1)], samples=2000)[:, 0].bincount(minlength=TOKENS)
    assert (counts - 400).abs().max() < 80  # four standard deviations


def test_every_batch_has_equal_shares_of_all_networks():
    models = [steps(1), steps(2)]
    batches = sampled_inputs(models, Language.of(models[0], Arguments.of(X)), samples=40).data
    assert len(batches) == 5
    for (tokens,), _ in batches:
        gone = (tokens.diff(dim=1) % TOKENS).float().mean(1)
        assert gone.tolist() == [1.0] * 4 + [2.0] * 4


def test_a_network_of_one_length_writes_as_one_that_reads_shorter_texts():
    scores = torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1))
    languages = [Language.of(kind(scores), Arguments.of(X)) for kind in (Chain, OneLength)]
    assert [each.grows for each in languages] == [True, False]
    assert torch.equal(texts_of([Chain(scores)]), texts_of([OneLength(scores)]))


def test_a_mask_goes_with_the_texts():
    example = {"tokens": X, "mask": torch.ones(3, PLACES)}
    batches = transfuse.synthetic_inputs([steps(1)], example, samples=20)
    assert [batch[1]["mask"].shape for batch in batches.data] == [(4, PLACES)] * 5
    assert all(tuple(batch.run(steps(1)).shape) == (4, PLACES, TOKENS) for batch in batches)


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (LooksAhead(torch.eye(TOKENS)), X),
        (nn.Sequential(nn.Embedding(TOKENS, 3), nn.Flatten(), nn.Linear(3 * PLACES, TOKENS)), X),
        (nn.Sequential(nn.Embedding(TOKENS, 3), nn.Linear(3, TOKENS + 1)), X),
        (nn.Sequential(nn.Linear(PLACES, 3)), torch.randn(3, PLACES)),
    ],
)
def test_other_networks_write_no_texts(model, example):
    assert Language.of(model, Arguments.of(example)) is None


def test_the_result_says_which_inputs_were_made():
    models = [Chain(torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(seed))) for seed in (1, 2)]
    told = str(transfuse.fuse(models, X, correct="refit").correction)
    assert "texts sampled from the models, since they give a score for each token at each place" in told


SCORES = torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def written_both_ways(model, example):
    """The language of a network, and what it writes with its memory and without."""
    language = Language.of(model, Arguments.of(example))
    ways = (language, replace(language, remembers=False))
    return language, [each.written(model, 40, torch.Generator().manual_seed(2)) for each in ways]


def test_a_network_with_a_memory_reads_each_token_once_and_writes_the_same():
    model = Remembers(SCORES).double()
    language, (quick, slow) = written_both_ways(model, X)
    assert language.remembers
    assert torch.equal(quick, slow)
    model.read_tokens = 0
    language.written(model, 1, torch.Generator())
    assert model.read_tokens == PLACES - 1


def test_a_memory_that_gives_something_else_is_not_used():
    assert not Language.of(Remembers(SCORES, forgets=0.5).double(), Arguments.of(X)).remembers


class Masked(Remembers):
    """Scores that depend on how many tokens a mask lets through, of all that were read, and on a number at each."""

    def forward(self, tokens, numbers, attention_mask, use_cache=False, past_key_values=None):
        output = super().forward(tokens, use_cache, past_key_values)
        seen = attention_mask.cumsum(1)[:, -tokens.shape[1] :]
        return {**output, "scores": output["scores"] * (seen + numbers)[..., None]}


def test_a_mask_of_all_tokens_and_what_stands_at_each_go_with_a_memory():
    numbers = torch.arange(3.0 * PLACES).view(3, PLACES)
    example = {"tokens": X, "numbers": numbers, "attention_mask": (numbers % 3 > 0).double()}
    language, (quick, slow) = written_both_ways(Masked(SCORES).double(), example)
    assert language.remembers
    assert torch.equal(quick, slow)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # the library warns about its own optional parts
def test_what_a_decoder_reads_is_written_beside_an_encoder_of_the_same_shape():
    zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")
    model = next(model for model in zoo.MODELS if model.name == "t5").build()
    found = Language.of(model, Arguments.of({"input_ids": X, "decoder_input_ids": X, "use_cache": False}))
    assert found.place == 1


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # the library warns about its own optional parts
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "gpt_neox", "opt", "bloom"])
def test_real_definitions_write_the_same_with_their_memory_and_without(name, masked):
    zoo = pytest.importorskip("transformers_zoo", reason="needs the extra transformers")
    row = next(model for model in zoo.MODELS if model.name == name)
    tokens = row.inputs()["input_ids"]
    mask = {"attention_mask": torch.ones_like(tokens)} if masked else {}
    language, (quick, slow) = written_both_ways(row.build().double(), {"input_ids": tokens, **mask})
    assert language.remembers
    assert torch.equal(quick, slow)
