"""Versions: one list for reports, model cards and records of experiments."""

import torch

import transfuse
from transfuse.versions import package_versions


def test_versions_are_those_that_run():
    found = package_versions()
    assert found["transfuse"] == transfuse.__version__
    assert found["torch"].partition("+")[0] == torch.__version__.partition("+")[0]  # a build may go untold
