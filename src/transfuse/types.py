"""The types that every room speaks of, each defined once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

State = Mapping[str, Tensor]  # parameters and buffers by name
Array = NDArray[np.float64]
Watch = Callable[[str, int, int], None]  # is told of progress: `watch(stage, done, total)`
Forward = Callable[[nn.Module, Any], Any]  # runs a model on a batch
