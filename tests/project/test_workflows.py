"""The workflows on GitHub: their actions are pinned, and each job has only the permissions that it needs."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAY_WRITE = {
    "docs: publish": {"pages", "id-token"},
    "wheels: publish": {"id-token"},
    "wheels: release": {"contents"},
}
PINNED = re.compile(r"uses: [\w-]+(?:/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


@cache
def workflows():
    """Parse the workflows, not while tests are collected, which each worker does."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in FILES}


def jobs():
    return {f"{workflow}: {name}": job for workflow, text in workflows().items() for name, job in text["jobs"].items()}


def commands(name):
    return [step["run"] for step in jobs()[name]["steps"] if "run" in step]


def test_expected_workflows_exist():
    assert {path.stem for path in FILES} >= {"audit", "ci", "docs", "wheels"}
    assert jobs().keys() >= MAY_WRITE.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_a_version(path):
    lines = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line)] == []


def test_an_action_has_one_version_in_all_workflows():
    uses = {line for path in FILES for line in re.findall(r"uses: (.*)", path.read_text())}
    names = [line.partition("@")[0] for line in uses]
    assert len(names) == len(set(names))


def test_default_permissions_are_empty():
    assert {name: text["permissions"] for name, text in workflows().items()} == {path.stem: {} for path in FILES}


def test_write_permissions_of_jobs_are_limited():
    for name, job in jobs().items():
        assert isinstance(job["permissions"], dict), f"{name} does not need read-all or write-all"
        scopes = {scope for scope, access in job["permissions"].items() if access != "read"}
        assert scopes == MAY_WRITE.get(name, set()), name


def test_checkouts_do_not_persist_credentials():
    for name, job in jobs().items():
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts), name
        assert checkouts == [] or name not in MAY_WRITE, "a job that may write runs no code of the repository"


@pytest.mark.parametrize("path", [*FILES, ROOT / "Makefile", ROOT / "pyproject.toml"], ids=lambda path: path.name)
def test_no_second_index_can_shadow_a_package(path):
    assert not re.search(r"extra.index.url", path.read_text(), re.IGNORECASE)


def test_releases_are_built_from_build_lock():
    for name, tool in (("wheels: wheels", "-m cibuildwheel"), ("wheels: sources", "-m build --no-isolation")):
        install, build, *_ = commands(name)
        assert install == "python -m pip install --require-hashes -r build.lock"
        assert tool in build
    project = (ROOT / "pyproject.toml").read_text()
    assert 'build-frontend = { name = "build", args = ["--no-isolation"] }' in project
    assert 'before-build = "pip install --require-hashes -r {project}/build.lock"' in project


def test_materials_of_both_locks_are_attached_to_releases():
    (make,), (attach,) = commands("wheels: materials"), commands("wheels: release")
    assert "for lock in constraints build;" in make
    assert "$lock.cdx.json" in make
    assert re.search(r"gh release upload .*\.cdx\.json", attach)
