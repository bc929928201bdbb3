"""Max pooling with channels last: the same numbers in the same order as PyTorch gives, whatever the images are."""

from functools import partial

import pytest
import torch
from torch import nn

import transfuse
from transfuse.activations.pooling import pooled

IMAGES = torch.randn(3, 5, 9, 12, generator=torch.Generator().manual_seed(0))
IMAGES[0, 0, 0, 0] = torch.nan
ODD = {
    "plain": IMAGES,
    "channels last": IMAGES.contiguous(memory_format=torch.channels_last),
    "one channel": IMAGES[:, :1].contiguous(),
    "strided": IMAGES[:, ::2],
    "one image": IMAGES[0],
    "double": IMAGES.double(),
    "no image": IMAGES[:0],
}


@pytest.mark.parametrize("images", ODD.values(), ids=ODD)
@pytest.mark.parametrize("how", [{}, {"stride": 1, "padding": 1}, {"dilation": 2}, {"ceil_mode": True}], ids=str)
def test_it_gives_what_pytorch_gives_in_the_same_order_of_memory(images, how):
    own, plain = pooled(partial(torch.max_pool2d, images, 3, **how)), torch.max_pool2d(images, 3, **how)
    torch.testing.assert_close(own, plain, rtol=0, atol=0, equal_nan=True, check_stride=True)


def test_it_has_slopes():
    one, other = (IMAGES[1:].clone().requires_grad_() for _ in range(2))
    pooled(partial(torch.max_pool2d, one, 2)).square().sum().backward()
    torch.max_pool2d(other, 2).square().sum().backward()
    torch.testing.assert_close(one.grad, other.grad)


class Tutorial(nn.Module):
    """Pools, and flattens by `view`, which refuses numbers in another order."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.last = nn.Conv2d(1, 6, 3), nn.MaxPool2d(2), nn.Linear(54, 4)

    def forward(self, x):
        return self.last(self.pool(self.conv(x).relu()).view(-1, 54))


def test_a_network_that_flattens_by_view_is_corrected():
    torch.manual_seed(0)
    fusion = transfuse.fuse([Tutorial(), Tutorial()], torch.randn(2, 1, 8, 8), data=torch.randn(60, 1, 8, 8))
    assert fusion.correction.method in ("refit", "selection")
