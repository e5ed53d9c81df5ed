# SPDX-License-Identifier: Apache-2.0
"""The examples in deploy/: they can be read, their commands are commands of `legcf`, and they work where rights end."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from legcf.cli.app import app_for
from legcf.modelfile.served_model import ServedModel
from legcf.server.workers import server_options
from tests.cli.commands.test_serve import serving
from tests.cli.read_only import read_only
from tests.served import model, toy  # noqa: F401 - fixtures

DEPLOY = Path(__file__).parents[1] / "deploy"
DOCKERFILE = re.sub(r"\\\n", "", (DEPLOY / "Dockerfile").read_text())
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
DEPLOYMENT, SERVICE = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]


def _unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "legcf.service")
    return unit


def _words(instruction: str) -> list[str]:
    """What follows an instruction of the Dockerfile, in its JSON form."""
    (line,) = re.findall(rf"^{instruction}\b.*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    words: list[str] = json.loads(line)
    return words


def _arguments() -> dict[str, list[str]]:
    """Of every place that starts `legcf`, what stands behind that word."""
    comments = re.findall(r"run --rm train (.*)", (DEPLOY / "compose.yaml").read_text())
    return {
        "Dockerfile": _words("CMD"),
        "compose.yaml": COMPOSE["legcf"]["command"],
        "kubernetes.yaml": POD["containers"][0]["args"],
        "legcf.service": shlex.split(_unit()["Service"]["ExecStart"])[1:],
        **{f"compose.yaml, {line}": shlex.split(line) for line in comments},
    }


@pytest.mark.parametrize("place", _arguments())
def test_commands_are_commands_of_legcf(place: str) -> None:
    name, *arguments = _arguments()[place]
    command: Any = typer.main.get_command(app_for([name]))
    parsed = command.commands[name].make_context(name, arguments).params
    if name == "serve":
        assert parsed["model"].name == "model.legcf"
        assert parsed["port"] == 8000


def test_a_pod_that_ends_has_time_to_answer() -> None:
    (word, seconds) = POD["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep"
    assert int(seconds) + server_options()["timeout_graceful_shutdown"] < POD["terminationGracePeriodSeconds"]


def test_images_and_pods_have_no_rights_they_do_not_need() -> None:
    assert _words("ENTRYPOINT") == ["legcf"]
    assert int(re.findall(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)[-1]) > 0
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in COMPOSE.values())
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert _unit()["Service"]["DynamicUser"] == "yes"
    assert _unit()["Service"]["ProtectSystem"] == "strict"


def test_the_service_finds_the_pods() -> None:
    assert SERVICE["spec"]["selector"].items() <= DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items()
    assert SERVICE["spec"]["ports"][0]["targetPort"] == POD["containers"][0]["ports"][0]["name"]


def test_what_is_copied_into_the_image_is_there() -> None:
    allowed = re.findall(r"^!(.*)$", (DEPLOY.parent / ".dockerignore").read_text(), re.MULTILINE)
    copied = [word for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()]
    assert sorted(copied) == sorted(allowed)
    assert all((DEPLOY.parent / name).exists() for name in copied)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    here = tmp_path / "legcf.service"
    here.write_text((DEPLOY / "legcf.service").read_text().replace("/opt/legcf/bin/legcf", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_images_command_and_its_health_check(model: ServedModel, writable: Path) -> None:  # noqa: F811
    """As the image runs them: another user, everything read-only."""
    name, path, *options = _words("CMD")
    assert name == "serve"
    file = writable / Path(path).name
    model.save(file)
    inside = read_only()
    probes = {POD["containers"][0][probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")}
    options = [word for word in options if word not in ("--port", "8000")]
    with serving(file, *options, inside=inside) as (base, _):
        _, *code = _words("HEALTHCHECK")
        here = [word.replace("http://127.0.0.1:8000", base) for word in code]
        assert subprocess.run([*inside, sys.executable, *here]).returncode == 0
        elsewhere = [word.replace("/ready", "/nowhere") for word in here]
        assert subprocess.run([*inside, sys.executable, *elsewhere], capture_output=True).returncode == 1
        for probe in probes:
            asked = [word.replace("/ready", probe) for word in here]
            assert subprocess.run([*inside, sys.executable, *asked]).returncode == 0
