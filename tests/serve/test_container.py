"""The container image of the server: its build stages, and those parts of the build that need no container engine."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fake_lm import FakeLM, symbols
from served import run_server

from ninja.rescoring import RescoreOptions
from ninja.serve.scorer import Scorer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"
BASE_MB = 125  # python:3.11-slim, unpacked
MAX_MB = 300


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line.strip()]


def light_libraries() -> list[str]:
    command = next(value for name, value in instructions() if name == "RUN" and "isal" in value)
    words = shlex.split(command.partition("versions.txt")[2].partition("&&")[0])
    return [word for word in words if not word.startswith("-")]


def test_final_images_run_without_root_and_have_a_health_check() -> None:
    names = [name for name, _ in instructions()]
    stages = [value.partition(" AS ") for name, value in instructions() if name == "FROM"]
    assert [stage for _, _, stage in stages] == ["build", "build-torch", "base", "torch", "light"]
    assert {image for image, _, _ in stages if ":" in image} == {"python:3.11-slim-bookworm"}
    values = dict(instructions()[names.index("ENV") :])
    assert values["USER"] == "10001:10001"
    assert "healthz" in values["HEALTHCHECK"]
    assert names.count("USER") == 1  # no later instruction returns to root
    assert [name for name, _ in instructions()[names.index("USER") :] if name in ("RUN", "ADD")] == []


def test_the_build_copies_only_existing_files_that_are_not_ignored() -> None:
    included = {
        line[1:] for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copies = [value.split() for name, value in instructions() if name == "COPY" and "--from" not in value]
    sources = {source for *names, _ in copies for source in names}
    assert sources == included
    assert all((ROOT / source).exists() for source in sources)


def test_the_light_image_installs_the_libraries_of_the_readme_and_the_serve_extra() -> None:
    readme = re.search(
        r"^pip install (click .*?) && pip install --no-deps", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    extra = re.search(r"^serve = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert readme is not None
    assert extra is not None
    serve = re.findall(r'"([\w-]+)', extra[1])
    assert sorted(light_libraries()) == sorted([*readme[1].split(), *serve])


def test_the_lock_file_pins_every_library() -> None:
    command = next(value for name, value in instructions() if name == "RUN" and value.startswith("grep"))
    program = command.partition(">")[0]
    process = subprocess.run(["sh", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    versions = dict(line.split("==") for line in process.stdout.splitlines())
    for name in (*light_libraries(), "torch", "transformers", "anyio", "h11"):
        assert re.fullmatch(r"[\w.+]+", versions[name.replace("_", "-")]), name


def dependency_closure(names: list[str]) -> set[str]:
    """Return the libraries and all their dependencies, direct and indirect."""
    libraries: set[str] = set()
    while names:
        name = re.split(r"[^\w.-]", names.pop())[0].lower().replace("_", "-")
        if name in libraries:
            continue
        libraries.add(name)
        lines = importlib.metadata.requires(name) or []
        names += [line for line in lines if not re.search(r"extra ==|python_version <|sys_platform", line)]
    return libraries


def test_the_light_image_is_below_its_size_limit() -> None:
    pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
    library_size = sum(
        Path(str(file.locate())).stat().st_size
        for name in dependency_closure(light_libraries())
        for file in importlib.metadata.files(name) or ()
        if Path(str(file.locate())).exists()
    )
    folders = ROOT / "ninja", ROOT / "models"
    package_size = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    assert BASE_MB + (library_size + package_size) / 1e6 < MAX_MB


def test_the_health_check_passes_only_while_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
    check = next(value for name, value in instructions() if name == "HEALTHCHECK").partition("CMD ")[2]
    _, option, program = re.findall(r'"([^"]*)"', check)
    assert option == "-c"
    with run_server(Scorer(FakeLM(), RescoreOptions(unk_penalty=1.0), words=symbols())) as client:
        command = [sys.executable, "-S", "-c", program.replace(":8080", f":{client.port}")]
        assert subprocess.run(command, timeout=60).returncode == 0
    assert subprocess.run(command, timeout=60, stderr=subprocess.DEVNULL).returncode != 0


def test_prometheus_scrapes_the_metrics_of_the_service() -> None:
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]
    (target,) = scrape["static_configs"][0]["targets"]
    service, _, port = target.partition(":")
    ninja = compose["services"][service]
    assert scrape["metrics_path"] == "/metrics"
    assert port in ninja["command"]
    assert ninja["build"]["target"] in [value.partition(" AS ")[2] for name, value in instructions() if name == "FROM"]
    assert (FOLDER / ninja["build"]["context"] / ninja["build"]["dockerfile"]).exists()
    mappings = [mapping for container in compose["services"].values() for mapping in container["ports"]]
    assert all(mapping.startswith("127.0.0.1:") for mapping in mappings)
    for mount in compose["services"]["prometheus"]["volumes"]:
        assert (FOLDER / mount.split(":")[0]).exists()
