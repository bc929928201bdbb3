"""From two trained networks to a page that one shares: train, fuse, measure, write, and look at what was written.

    python examples/journeys/report_page.py            # writes report.html and report.card.png here
    python examples/journeys/report_page.py FOLDER     # or there

Takes less than half a minute. Each step tells its time; at the end the page is read back and compared with the records.
"""

import csv
import io
import re
import sys
import time
from base64 import b64decode
from pathlib import Path

import torch
from torch import nn

import transfuse
from transfuse.demo import digits

torch.set_num_threads(1)  # networks this small are slower on more


def trained(seed):
    """A small network of one's own, trained on the digits that come with the package."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    images, labels = digits("train")
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(15):
        for rows in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimiser.step()
    return model.eval()


def main(folder):
    """Train, fuse, write the page, and read it back."""
    clock = [time.perf_counter()]

    def tell(step):
        clock.append(time.perf_counter())
        print(f"{clock[-1] - clock[-2]:6.1f} s  {step}", flush=True)

    models = [trained(seed) for seed in (0, 1)]
    tell("two networks trained")
    images, labels = digits("test")
    fusion = transfuse.fuse(models, images[:2])
    tell("fused")
    evaluate = transfuse.evaluator([(images, labels)])
    path = fusion.report(folder / "report.html", evaluate, title="Two digit readers, fused", url="https://example.org/")
    tell(f"measured and written: {path}, {path.stat().st_size / 1000:.0f} kB")

    text = path.read_text("utf-8")
    error = evaluate(fusion.model)["error"]
    number = re.search(r'class="number">([\d.]+)', text)
    assert number is not None
    assert abs(float(number[1]) - error) < 0.01, "the large number is the error of the fused network"
    table = re.search(r'download="transfuse-results.csv" href="data:text/csv;base64,([^"]+)"', text)
    assert table is not None
    rows = {row["role"]: row for row in csv.DictReader(io.StringIO(b64decode(table[1]).decode()))}
    assert float(rows["fused"]["error"]) == error, "the table that can be saved has all digits"
    assert 'property="og:image" content="https://example.org/report.card.png"' in text
    assert (folder / "report.card.png").read_bytes()[16:24] == bytes.fromhex("000004b000000276")  # 1200 by 630 pixels
    assert path.stat().st_size < 1.5e6
    tell("read back")
    print(f"{clock[-1] - clock[0]:6.1f} s  in all")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
