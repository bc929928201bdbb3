"""Names that help texts list are those of the tables."""

from transfuse.corrections import CORRECTIONS
from transfuse.names import CORRECTION_NAMES, NETWORK_NAMES
from transfuse.networks import NETWORKS


def test_the_names_are_those_of_the_tables():
    assert tuple(NETWORKS) == NETWORK_NAMES
    assert tuple(CORRECTIONS) == CORRECTION_NAMES
