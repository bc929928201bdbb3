"""Sampled inputs: texts that language models write themselves, token by token.

A language model says at each place which token comes next. Texts that are drawn from that, by equal shares of all
networks, are as good for a correction as texts of data were found to be, and take neither data nor a tokenizer: the
first token is any, the others are drawn from what the network gives (ancestral sampling). Networks with a memory of
what they have read (`use_cache` of `transformers`) read each token once.

In: networks that read tokens and give a score for each token at each place, and example inputs. Out: `Batches`. Not
here: random tokens for all other networks (`noise`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..activations import Batches
from ..modules import Arguments, tensors_in
from .noise import BATCHES, vocabulary_of

SAMPLED = 200  # texts: a correction was found to gain little from more
MASK = "attention_mask"  # which `transformers` want for all tokens, those that are remembered too
SAME = 1e-3  # of their size, by which scores may differ and still be the same

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Language:
    """How networks read and write texts.

    Args:
        example: Inputs on which they run.
        place: Where the tokens are among the inputs.
        output: Where the scores are among the outputs.
        vocabulary: How many tokens there are.
        grows: Whether they read shorter texts than the example's, and say the same of them.
        remembers: Whether they have a memory of what they have read, so that they need to read one more token only.
    """

    example: Arguments
    place: int
    output: int
    vocabulary: int
    grows: bool
    remembers: bool = False

    @staticmethod
    @torch.no_grad()
    def of(model: nn.Module, example: Arguments) -> Language | None:
        """How a network writes texts; none where it does not.

        It does if it reads tokens [texts, places], gives a score for each token at each place, and what it gives at a
        place does not depend on the tokens that come after it.
        """
        for place, value in enumerate(pytree.tree_leaves((example.args, dict(example.kwargs)))):
            if isinstance(value, Tensor) and value.dim() == 2 and not value.is_floating_point() and value.shape[1] > 1:
                size = vocabulary_of(model, example, value)
                outputs = tensors_in(model(*example.args, **example.kwargs)) if size else []
                for output, scores in enumerate(outputs):
                    if scores.is_floating_point() and tuple(scores.shape) == (*value.shape, size):
                        found = Language(example, place, output, size, grows=False)._checked(model, value, scores)
                        if found is not None:  # what an encoder reads may have the shape of what is written
                            return found
        return None

    def _checked(self, model: nn.Module, tokens: Tensor, scores: Tensor) -> Language | None:
        """This, if nothing depends on what comes later, and whether shorter texts are read."""
        other = tokens.clone()
        other[:, -1] = (other[:, -1] + 1) % self.vocabulary
        if not _same(self.scores(model, other)[:, :-1], scores[:, :-1]):
            return None
        try:
            grows = _same(self.scores(model, tokens[:, :-1]), scores[:, :-1])
        except Exception as error:  # the network's own code runs here, and may raise anything: it takes one length only
            _log.debug("%s takes no shorter texts: %r", type(model).__name__, error)
            grows = False
        return replace(self, grows=grows, remembers=grows and self._memory_holds(model, tokens, scores))

    def _memory_holds(self, model: nn.Module, tokens: Tensor, scores: Tensor) -> bool:
        """Whether a network has a memory by the names of `transformers`, and gives the same with it."""
        if not {"use_cache", "past_key_values"} <= inspect.signature(model.forward).parameters.keys():
            return False
        try:
            _, memory = self._read_on(model, tokens[:, :-1], 0, None)
            last, _ = self._read_on(model, tokens, tokens.shape[1] - 1, memory)
        except Exception as error:  # the network's own code runs here, and may raise anything: its memory is not used
            _log.debug("%s cannot read on from its memory: %r", type(model).__name__, error)
            return False
        return memory is not None and _same(last, scores[:, -1])

    def _read_on(self, model: nn.Module, tokens: Tensor, read: int, memory: Any) -> tuple[Tensor, Any]:
        """What a network that has read so many of the tokens, and now reads the others, gives next; and its memory."""
        args, kwargs = self.inputs(tokens, read)
        if MASK in kwargs:
            kwargs[MASK] = self.inputs(tokens)[1][MASK]
        outputs = model(*args, **{**kwargs, "use_cache": True, "past_key_values": memory})
        scores = tensors_in(outputs)[self.output][:, -1]
        return scores, outputs["past_key_values"] if isinstance(outputs, Mapping) else None

    @property
    def _values(self) -> list[Any]:
        return pytree.tree_leaves((self.example.args, dict(self.example.kwargs)))

    def inputs(self, tokens: Tensor, read: int = 0) -> Any:
        """The example inputs with other tokens, but for those that are read; the rest is cut or repeated to fit."""
        values, tree = pytree.tree_flatten((self.example.args, dict(self.example.kwargs)))
        shape = values[self.place].shape
        fitted = [_fitted(value, shape, tokens.shape, read) for value in values]
        return pytree.tree_unflatten([*fitted[: self.place], tokens[:, read:], *fitted[self.place + 1 :]], tree)

    def scores(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """What a network gives for each token [texts, places, tokens] of texts [texts, places]."""
        args, kwargs = self.inputs(tokens)
        return tensors_in(model(*args, **kwargs))[self.output]

    @torch.no_grad()
    def written(self, model: nn.Module, texts: int, random: torch.Generator) -> Tensor:
        """Texts [texts, places] that a network writes, as long as the example's."""
        like = self._values[self.place]
        tokens = torch.randint(self.vocabulary, (texts, like.shape[1]), generator=random).to(like)
        memory = None
        for place in range(1, like.shape[1]):
            if self.remembers:
                scores, memory = self._read_on(model, tokens[:, :place], place - 1, memory)
            else:
                scores = self.scores(model, tokens[:, :place] if self.grows else tokens)[:, place - 1]
            chances = scores.float().softmax(-1).cpu()
            tokens[:, place] = torch.multinomial(chances, 1, generator=random)[:, 0].to(like)
        return tokens


def sampled_inputs(
    models: Sequence[nn.Module], language: Language, *, samples: int = SAMPLED, seed: int = 0
) -> Batches:
    """Batches of texts that the networks write, each batch by equal shares.

    Args:
        models: Networks of one architecture, in evaluation mode.
        language: How they read and write texts.
        samples: How many texts in all batches; at least one of each network in each batch.
        seed: Seed of the random numbers.
    """
    random = torch.Generator().manual_seed(seed)
    each = max(1, -(-samples // (len(models) * BATCHES)))
    texts = [language.written(model, each * BATCHES, random) for model in models]
    mixed = [torch.cat(parts) for parts in zip(*(own.split(each) for own in texts), strict=True)]
    batches = [language.inputs(tokens) for tokens in mixed]
    return Batches(batches, len(batches), lambda model, batch: model(*batch[0], **batch[1]))


def _fitted(value: Any, shape: Sequence[int], wanted: Sequence[int], read: int) -> Any:
    """An input beside the tokens, positions for instance, in the shape of other tokens but for those that are read."""
    if not isinstance(value, Tensor) or value.dim() == 0 or value.shape[0] != shape[0]:
        return value
    value = value[torch.arange(wanted[0], device=value.device) % shape[0]]
    return value[:, read : wanted[1]] if value.dim() > 1 and value.shape[1] == shape[1] else value


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether scores are the same but for rounding."""
    return one.shape == other.shape and float((one - other).abs().max()) <= SAME * float(other.abs().max())
