"""Types that many rooms share, each defined here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

State = Mapping[str, Tensor]  # the tensors of a network by name, as in `state_dict`
Array = NDArray[np.float64]
Watch = Callable[[str, int, int], None]  # told how far it is: `watch(stage, done, total)`
Forward = Callable[[nn.Module, Any], Any]  # runs a network on a batch; what it gives
