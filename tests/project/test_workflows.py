"""The workflows on GitHub: their actions are pinned, and each job has only the permissions that it needs."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PARSED = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}
JOBS = [(f"{workflow}: {name}", job) for workflow, read in PARSED.items() for name, job in read["jobs"].items()]
MAY_WRITE = {
    "docs: publish": {"pages", "id-token"},
    "wheels: publish": {"id-token"},
    "wheels: release": {"contents"},
}
PINNED = re.compile(r"uses: [\w-]+(?:/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def commands(name):
    (job,) = [job for job_name, job in JOBS if job_name == name]
    return [step["run"] for step in job["steps"] if "run" in step]


def test_expected_workflows_exist():
    assert {path.stem for path in FILES} >= {"audit", "ci", "docs", "wheels"}
    assert {name for name, _ in JOBS} >= MAY_WRITE.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_a_version(path):
    lines = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line)] == []


def test_an_action_has_one_version_in_all_workflows():
    uses = {line for path in FILES for line in re.findall(r"uses: (.*)", path.read_text())}
    names = [line.partition("@")[0] for line in uses]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("workflow", PARSED)
def test_default_permissions_are_empty(workflow):
    assert PARSED[workflow]["permissions"] == {}


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_job_write_permissions_are_limited(name, job):
    assert isinstance(job["permissions"], dict), "no job needs read-all or write-all"
    assert {scope for scope, access in job["permissions"].items() if access != "read"} == MAY_WRITE.get(name, set())


@pytest.mark.parametrize(("name", "job"), JOBS, ids=[name for name, _ in JOBS])
def test_checkouts_do_not_persist_credentials(name, job):
    checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    if name in MAY_WRITE:
        assert checkouts == [], "a job that may write runs no code of the repository"


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
