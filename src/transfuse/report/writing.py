"""Pages become files: the page itself, which needs no other, and beside it the card that previews of links show.

In: what was measured, a path. Out: files, each written whole or not at all. A page holds the address of its card, and
services that show previews ask for a whole one: it is known if the caller says where the page will be.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, urljoin

from ..errors import InputError
from ..files import write_whole
from ..fusing import Fusion
from .card import card_png
from .contents import Report, Request
from .first_lines import Opening, opening
from .gathering import gather
from .rendering import page
from .travel import Journey, end_name, journeys

CARD = ".card.png"  # the end of a card's name, in place of the page's `.html`


def write_report(
    path: str | os.PathLike[str], fusion: Fusion, request: Request, title: str | None = None, url: str | None = None
) -> Path:
    """Measure a fusion, and write the page about it and its card.

    Raises:
        InputError: the folder does not exist, or `url` is no address, before anything is measured.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist; make it, or give another path")
    card_address(path, url)
    return write_page(path, gather(fusion, request, title), url)


def write_page(path: Path, report: Report, url: str | None = None) -> Path:
    """Write the page about what was measured, and its card."""
    first = opening(report.results, report.subject.models)
    found = journeys({"card": report.results}, first.metric, end_name(report.subject.models))
    write_card(path, report.title, first, found.get("card"))
    return write_whole(path, page(report, card_address(path, url)).encode())


def write_card(path: Path, title: str, first: Opening, journey: Journey | None) -> Path:
    """Write the card of a page."""
    return write_whole(card_beside(path), card_png(title, first, journey))


def card_beside(path: str | os.PathLike[str]) -> Path:
    """The file of a page's card.

    Example:
        >>> card_beside("results/report.html").name
        'report.card.png'
    """
    return Path(path).with_suffix(CARD)


def card_address(path: str | os.PathLike[str], url: str | None) -> str:
    """The address of a page's card: beside the page, whose own address is whole if it is known.

    Raises:
        InputError: `url` is given and does not begin with http:// or https://.

    Example:
        >>> card_address("out/report.html", None), card_address("out/report.html", "https://example.org/a/b.html")
        ('report.card.png', 'https://example.org/a/report.card.png')
    """
    name = quote(card_beside(path).name)
    if url is None:
        return name
    if not url.startswith(("https://", "http://")):
        raise InputError(f"url is {url!r}; expected where the page will be, such as https://example.org/report.html")
    return urljoin(url, name)
