"""Sampled inputs: language models write texts by their own probabilities, by equal shares; no other networks do."""

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
