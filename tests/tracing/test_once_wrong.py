"""Networks that random search once found to be read wrongly (the proof said so), kept as they were found."""

import pytest

import transfuse
from random_networks import Program, Script

SCRIPTS = {
    "units along the time axis of a recurrent network": """
        v0 = input(2, 3, 3)
        v1 = linear(v0, width=4, bias=True, axis=1)
        v2 = recurrent(v1, kind='rnn', hidden=4, num_layers=2, bidirectional=True, bias=False, readout='sequence', batch_first=False)
        return v2
    """,
    "columns that read zero padding stand beside columns that read units": """
        v0 = input(2, 2, 6)
        v1 = linear(v0, width=3, bias=False, axis=2)
        v2 = reduce(v1, kind='mean', axis=1, keepdim=False)
        v3 = pad(v2, axis=1, before=0, after=2, value=0.0)
        v4 = pool_linear(v3, width=3, kind='max')
        return v4
    """,
    "a convolution mixes units with padding by a number": """
        v0 = input(2, 3, 5, 5)
        v1 = conv2d(v0, width=3, kernel=1, stride=2, padding=1, bias=True)
        v2 = pad(v1, axis=2, before=1, after=2, value=0.5)
        v3 = conv2d(v2, width=6, kernel=2, stride=2, padding=1, bias=False)
        v4 = pool_linear(v3, width=3, kind='max')
        return v4
    """,
    "a causal mask over units": """
        v0 = input(2, 4, 2)
        v1 = conv1d(v0, width=4, kernel=3, axis=1, count=1, bias=False)
        v2 = attention(v1, count=2, size=2, form='sdpa', interleaved=False, causal=True, fused=False, rotary=False, shared_keys=False)
        v3 = reduce(v2, kind='norm', axis=1, keepdim=True)
        return v3
    """,
    "features of a recurrent network that are patches of an image": """
        v0 = input(2, 2, 3, 3)
        v1 = linear(v0, width=2, bias=False, axis=3)
        v2 = unfold(v1, kernel=3)
        v3 = reduce_and_back(v2, kind='norm', axis=1, how='subtract')
        v4 = recurrent(v3, kind='lstm_cell_state', hidden=3, num_layers=1, bidirectional=False, bias=True, readout='states', batch_first=False)
        v5 = conv1d(v4, width=2, kernel=1, axis=1, count=1, bias=False)
        return v5, v1
    """,
    "columns that see the same pixels in another order": """
        v0 = input(2, 2, 5, 5)
        v1 = pool(v0, form='avg')
        v2 = unfold(v1, kernel=3)
        v3 = linear(v2, width=3, bias=False, axis=2)
        v4 = constant(v3, how='multiply', where='forward')
        v5 = cross_attention(v4, v3, count=3, size=2, form='sdpa', interleaved=True)
        v6 = pool_linear(v5, width=3, kind='sum')
        return v6
    """,
}  # fmt: skip


@pytest.mark.parametrize("recorder", ["export", "eager"])
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_network_that_was_once_read_wrongly_is_read_right(script, recorder):
    program = Program(Script.read("\n".join(line.strip() for line in script.strip().splitlines())))
    layout = transfuse.trace(program, program.example_inputs(), recorder=recorder)
    transfuse.prove(program, program.example_inputs(), layout, seed=1)
    assert transfuse.parse(str(layout)) == layout
