"""A small report for tests of pages, and a reader of pages: elements with their attributes and texts."""

import functools
from html.parser import HTMLParser
from itertools import pairwise

import torch
from torch import nn

import transfuse
from transfuse.report import Request, gather

VOID = ("meta", "br", "input", "link", "img")  # elements of HTML that are never closed
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] * X[:, 1] > 0).long()


def net(*widths, seed, norm=False):
    torch.manual_seed(seed)
    parts = []
    for a, b in pairwise(widths):
        parts += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if norm else []), nn.Tanh()]
    return nn.Sequential(*parts[: -2 if norm else -1])


def evaluate(model):
    return transfuse.evaluator([(X[:40], Y[:40]), (X[40:], Y[40:])])(model)


@functools.cache
def fused(count=2, method="rebasin"):  # which ends without a correction
    return transfuse.fuse([net(4, 9, 7, 2, seed=seed) for seed in range(count)], X, method=method)


@functools.cache
def small_report():
    return gather(fused(), Request(evaluate, points=5, grid=5), "A <small> one & only")


class Page(HTMLParser):
    """All elements of a page as (tag, attributes, text inside); every element is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_startendtag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        for element in self.open:
            element[2] += data

    def all(self, tag, **wanted):
        """Attributes and texts of the elements of a kind that have these attributes; `class_` is one of its classes."""
        kind = wanted.pop("class_", None)
        return [
            (attributes, text)
            for found, attributes, text in self.elements
            if found == tag
            and all(attributes.get(name.replace("_", "-")) == value for name, value in wanted.items())
            and (kind is None or kind in attributes.get("class", "").split())
        ]
