"""What the site needs beyond its pages: hooks of MkDocs, named in mkdocs.yml.

In: pages as they stand in the repository, where a link is a path from the file it is in. Out: the same pages for the
site. The README is its home page, other pages of the root folder stand beside those of docs/, links to whatever is no
page lead into the repository, and a script of the gallery is shown where it is linked.
"""

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
HOME = "index.md"
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
LINK = re.compile(r"(?P<before>\]\()(?P<path>[^)#\s:]+)(?P<rest>(?:#[^)\s]*)?\))")
SCRIPT = re.compile(r"^\[`(?P<name>\w+\.py)`\]\(\.\./examples/gallery/\w+\.py\)(?:.*\n)(?:.+\n)*", re.MULTILINE)
CODE = re.compile(r"```.*?```", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages of docs/, those of the root folder, and the figures of the experiments."""
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "experiments" / "figures").glob("*.svg"))]:
        files.append(File.generated(config, place(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page, its links leading to where things stand on the site."""
    source = Path(page.file.abs_src_path or "")
    text = SCRIPT.sub(with_script, markdown)
    return LINK.sub(lambda link: rewritten(link, source, files), CODE.sub(hidden_links, text)).replace("]\0(", "](")


def place(path: Path) -> str:
    """Where a file of the repository stands on the site: docs/ and the root folder are one folder there."""
    if path == ROOT / "README.md":
        return HOME
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def rewritten(link: re.Match[str], source: Path, files: Files) -> str:
    """One link: to a page or picture of the site, or else to a file of the repository."""
    target = (source.parent / link["path"]).resolve()
    if not target.exists():
        raise PluginError(f"{source}: the link {link['path']} leads to no file; mend it")
    if target.is_file() and files.get_file_from_path(place(target)):
        path = posixpath.relpath(place(target), posixpath.dirname(place(source)) or ".")
    else:
        path = f"{REPOSITORY}/tree/main/{target.relative_to(ROOT).as_posix()}"
    return link["before"] + path + link["rest"]


def with_script(paragraph: re.Match[str]) -> str:
    """A paragraph of the gallery, followed by the script that it begins with."""
    code = (ROOT / "examples" / "gallery" / paragraph["name"]).read_text(encoding="utf-8")
    return f"{paragraph[0]}\n```python\n{code}```\n"


def hidden_links(block: re.Match[str]) -> str:
    """A block of code in which nothing looks like a link: `f[i](x)` is none."""
    return block[0].replace("](", "]\0(")
