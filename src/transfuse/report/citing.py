"""How to cite the software and its paper, and where the project lives: read from `CITATION.cff`, the one source.

In: the file, which is shipped with the package. Out: texts for a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

SOURCE = "CITATION.cff"


@dataclass(frozen=True)
class Citation:
    """What a page says about how to cite.

    Args:
        title: The name of the software and what it is.
        link: Where the project lives; empty if the file does not say it.
        works: What to cite, each as a line of text and an address, which may be empty.
        bibtex: The same for a bibliography.
    """

    title: str
    link: str
    works: tuple[tuple[str, str], ...]
    bibtex: str


@cache
def citation() -> Citation:
    """What `CITATION.cff` says."""
    content = yaml.safe_load(files("transfuse").joinpath(SOURCE).read_text("utf-8"))
    works = [content, *content.get("references", [])]
    return Citation(
        title=str(content["title"]),
        link=_address(content),
        works=tuple((_line(work), _address(work)) for work in works),
        bibtex="\n\n".join(map(_bibtex, works)),
    )


def _address(work: Mapping[str, Any]) -> str:
    """Where a work can be found; empty if nothing says it."""
    if "doi" in work:
        return f"https://doi.org/{work['doi']}"
    return str(work.get("repository-code") or work.get("url") or "")


def _line(work: Mapping[str, Any]) -> str:
    """A work in one line: who, when, what, where."""
    when = f" ({_year(work)})" if _year(work) else ""
    version = f", version {work['version']}" if "version" in work else ""
    where = f" {work['journal']}." if "journal" in work else ""
    return f"{', '.join(_authors(work))}{when}. {work['title']}{version}.{where}"


def _bibtex(work: Mapping[str, Any]) -> str:
    """A work as an entry of a BibTeX file."""
    names = work.get("authors", [{}])[0]
    key = str(names.get("family-names", "transfuse")).lower().replace(" ", "") + _year(work)
    fields = {
        "title": f"{{{work['title']}}}",
        "author": " and ".join(_authors(work)),
        "year": _year(work),
        "journal": work.get("journal", ""),
        "version": work.get("version", ""),
        "doi": work.get("doi", ""),
        "url": _address(work),
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    return f"@{'article' if 'journal' in work else 'software'}{{{key},\n{lines}\n}}"


def _authors(work: Mapping[str, Any]) -> list[str]:
    """Names of the authors as they are written."""
    return [
        each.get("name") or f"{each.get('given-names', '')} {each.get('family-names', '')}".strip()
        for each in work.get("authors", [])
    ]


def _year(work: Mapping[str, Any]) -> str:
    """The year in which a work appeared; empty if nothing says it."""
    return str(work.get("year") or str(work.get("date-released", ""))[:4])
