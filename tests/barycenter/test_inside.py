"""Members of units: their order by assignments and rotations in turns, against all orders there are."""

from itertools import permutations

import torch

from transfuse import parse
from transfuse.barycenter.inside import InsideScores, MemberScores
from transfuse.layout import Framed, Permutation

LAYOUT = parse("""
spaces: {groups: 2}
tensors: {query: ['groups*6', 8], key: ['groups*2', 8]}
frames: {groups: [{one: ['query 0 0:2', 'query 0 2:4', 'query 0 4:6'], other: ['key 0 0:2']}]}
members: {groups: [['query 0 0:2'], ['query 0 2:4'], ['query 0 4:6']]}
""")


def drawn(seed, shared):
    """Random scores, in which what no member has counts as much as it is said to."""
    generator = torch.Generator().manual_seed(seed)
    random = [torch.randn(shape, generator=generator).double() for shape in ((2, 2), (2, 2, 2, 2), (2, 2, 3, 3))]
    inside = torch.randn(2, 2, 3, 3, 2, 2, generator=generator).double()
    own = InsideScores(LAYOUT.frames, shared * random[0], (shared * random[1],))
    return MemberScores(LAYOUT.members[0], own, InsideScores(LAYOUT.frames, random[2], (inside,)))


def reached(scores, order, orders):
    """What the best rotations give if units and their members are in these orders."""
    total = 0.0
    for unit, (other, inner) in enumerate(zip(order, orders, strict=True)):
        plain, inside = scores.shared.plain[unit, other], scores.shared.inside[0][unit, other]
        for one, two in enumerate(inner):
            plain = plain + scores.each.plain[unit, other, one, two]
            inside = inside + scores.each.inside[0][unit, other, one, two]
        total += float(plain + torch.linalg.svdvals(inside).sum())
    return total


def best_of_all(scores):
    inner = list(permutations(range(3)))
    return max(reached(scores, order, (a, b)) for order in ((0, 1), (1, 0)) for a in inner for b in inner)


def test_what_an_element_agrees_is_what_was_reached():
    for seed in range(10):
        scores = drawn(seed, 1.0)
        found = scores.best()
        wanted = reached(scores, found.permutation.order.tolist(), found.orders.tolist())
        assert abs(scores.agreement(found) - wanted) < 1e-9
        start = Framed.of(Permutation([0, 1]), LAYOUT.frames)
        eye = torch.eye(2).double()
        still = sum(
            scores.shared.plain[u, u] + (scores.shared.inside[0][u, u] * eye).sum()
            + sum(scores.each.plain[u, u, i, i] + (scores.each.inside[0][u, u, i, i] * eye).sum() for i in range(3))
            for u in range(2)
        )  # fmt: skip
        assert abs(scores.agreement(start) - float(still)) < 1e-9


def test_mostly_no_order_is_better_and_never_is_one_much_better():
    shares = []
    for seed in range(60):
        scores = drawn(seed, 3.0 if seed % 2 else 1.0)
        shares.append(scores.agreement(scores.best()) / best_of_all(scores))
    assert max(shares) < 1 + 1e-9
    assert sum(share > 1 - 1e-9 for share in shares) >= 48
    assert min(shares) > 0.9
