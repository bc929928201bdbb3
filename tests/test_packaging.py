"""What is shipped: metadata that agree with each other, and a wheel and an sdist that work where nothing else is."""

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import transfuse

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
CONDA = {"torch": "pytorch"}  # names of conda packages, where they differ from those of the index
LINK = re.compile(r"\]\((?P<to>[^)\s]*)\)")
# Quick ones that need no browser, no transformers and no plots.
QUICK = ["tests/layout", "tests/transport", "tests/test_public.py", "tests/test_packaging.py", "tests/test_rooms.py"]


def test_the_version_is_the_same_everywhere():
    citation, recipe = (yaml.safe_load((ROOT / path).read_text()) for path in ("CITATION.cff", "recipe/recipe.yaml"))
    assert {PROJECT["version"], str(citation["version"]), recipe["context"]["version"]} == {transfuse.__version__}


def test_the_address_of_the_repository_is_the_same_everywhere():
    """Whoever moves the project changes these places; a forgotten one would send people to strangers."""
    files = ["pyproject.toml", "CITATION.cff", "SECURITY.md", "recipe/recipe.yaml", ".github/ISSUE_TEMPLATE/config.yml"]
    for path in files:
        found = set(re.findall(r"https://github\.com/[\w.-]+/transfuse\b", (ROOT / path).read_text(encoding="utf-8")))
        assert found == {REPOSITORY}, path


def test_the_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))["requirements"]["run"]
    names = [re.match(r"[\w-]+", each)[0] for each in PROJECT["dependencies"]]
    bounds = [each[len(name) :] for name, each in zip(names, PROJECT["dependencies"], strict=True)]
    wanted = {f"{CONDA.get(name, name).lower()} {bound}" for name, bound in zip(names, bounds, strict=True)}
    assert set(recipe) == wanted | {f"python {PROJECT['requires-python']}"}


def test_the_readme_can_be_read_in_one_go():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the sdist, built from the files that git knows."""
    pytest.importorskip("build", reason="needs the package build")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, stdout=subprocess.DEVNULL)
    return folder


def installed(folder, *what):
    """The Python of a new environment, with the constraints and nothing of this one."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *what]
    subprocess.run(install, check=True, env=clean())
    return python


def clean():
    """The variables of this process without those that would let another environment see this one."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}


@pytest.mark.long
def test_the_wheel_has_a_description_whose_links_work_anywhere(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        text = wheel.read(metadata).decode("utf-8")
        assert {"transfuse/py.typed", "transfuse/demo/digits.npz"} <= set(wheel.namelist())
    description = email.message_from_string(text).get_payload()
    links = [link["to"] for link in LINK.finditer(description)]
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.long
def test_the_wheel_works_in_an_environment_of_its_own(built, tmp_path):
    python = installed(tmp_path / "env", next(built.glob("*.whl")))
    command = [python, "-m", "transfuse"]
    subprocess.run([python, "-m", "pip", "check"], check=True, env=clean())
    told = subprocess.run(
        [*command, "demo", "--folder", "demo"], check=True, cwd=tmp_path, env=clean(), capture_output=True
    )
    assert b"auto" in told.stdout
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000


@pytest.mark.long
def test_the_sdist_builds_and_tests_itself(built, tmp_path):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("transfuse-*")
    python = installed(tmp_path / "env", f"{source}[test]")
    done = subprocess.run([python, "-m", "pytest", "-q", "-n", "0", *QUICK], cwd=source, env=clean(), check=False)
    assert done.returncode == 0
