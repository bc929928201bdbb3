"""The notebook of the examples: kept without outputs, and run as a reader runs it, with what is shown looked at."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "two_networks.ipynb"


def test_the_notebook_is_kept_without_outputs():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 4
    assert [cell["id"] for cell in cells if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.long
def test_the_notebook_runs_and_shows_bars_and_results(tmp_path):
    client, formats = (
        pytest.importorskip(name, reason="needs the extra notebook") for name in ("nbclient", "nbformat")
    )
    pytest.importorskip("ipykernel", reason="needs the extra notebook")
    notebook = formats.read(NOTEBOOK, as_version=4)
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output for output in outputs if output.output_type == "error"] == []
    shown = [output.data for output in outputs if output.output_type in {"execute_result", "display_data"}]
    assert sum("application/vnd.jupyter.widget-view+json" in data or "100%" in str(data) for data in shown) >= 2, "bars"
    tables = [data["text/html"] for data in shown if "<table" in data.get("text/html", "")]
    assert any("auto" in table for table in tables), "the fusion shows itself as a table"
    assert any("image/png" in data for data in shown), "the figure is drawn"
    assert all(len(str(data.get("text/plain", ""))) < 2000 for data in shown), "what is shown is short"
