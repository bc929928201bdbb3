"""Every Python block of the README and the docs runs, and prints what the block after it says."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n+```text\n(?P<printed>.*?)```)?", re.DOTALL)
BLOCKS = [
    pytest.param(match["code"], match["printed"], id=f"{path.name}-{number}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, match in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_a_block_of_the_documentation_runs_and_prints_what_it_says(code, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    torch.manual_seed(0)
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "block", "exec"), {"__name__": "__main__"})
    assert printed is None or out.getvalue().strip() == printed.strip()
