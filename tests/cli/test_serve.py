"""`legcf serve` as a process: starts, answers, logs JSON, stops on SIGTERM with code 0; bad files give code 2."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from legcf.serving.artifact import ServingModel
from tests.serving.conftest import model, model_file, toy  # noqa: F401 - fixtures

pytest.importorskip("uvicorn", reason="the server is an extra")


@contextmanager
def serving(path: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [
        sys.executable,
        "-c",
        "from legcf.cli.app import main; main()",
        "serve",
        str(path),
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "listening":
                base = f"http://127.0.0.1:{event['port']}"
                break
        else:
            raise AssertionError("the server ended")
        _wait(base)
        yield base, process
    finally:
        with suppress(ProcessLookupError):  # nobody is left: all went in time
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _wait(base: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{base}/health", timeout=5)
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)


def _wait_for_count(base: str, line: str) -> None:
    """A request is counted once its answer is sent, so the client can be earlier than the count."""
    end = time.monotonic() + 30
    while line not in urllib.request.urlopen(f"{base}/metrics").read().decode().splitlines():
        assert time.monotonic() < end
        time.sleep(0.05)


def _get(url: str) -> dict[str, object]:
    content: dict[str, object] = json.loads(urllib.request.urlopen(url, timeout=30).read())
    return content


@pytest.mark.parametrize("workers", ["1", "2"])
def test_starts_answers_and_stops(model_file: Path, workers: str) -> None:  # noqa: F811
    with serving(model_file, "--workers", workers) as (base, process):
        assert _get(f"{base}/recommend/u1?k=3")["user"] == "u1"
        with pytest.raises(urllib.error.HTTPError):
            _get(f"{base}/recommend/stranger")
        if workers == "2":  # counters are those of all workers, whoever answers
            for _ in range(20):
                _get(f"{base}/similar/i/1")
            _wait_for_count(base, 'legcf_requests_total{route="similar",status="2xx"} 20')
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0
        events = [json.loads(line) for line in log.splitlines()]
        assert any(event["event"] == "request" and event["status"] == 404 for event in events)
        assert any(event["event"] == "stopped" for event in events)


def test_swap_under_load_fails_no_request(model: ServingModel, tmp_path: Path) -> None:  # noqa: F811
    path, other = tmp_path / "model", tmp_path / "other"
    model.save(path)
    with serving(path, "--reload-seconds", "0.1", "--no-access-log") as (base, _):
        for turn in range(150):
            if turn % 30 == 0:
                model.save(other)
                os.replace(other, path)
            assert _get(f"{base}/recommend/u{turn % 60}?k=5")["items"]
            time.sleep(0.004)
        time.sleep(0.5)
        text = urllib.request.urlopen(f"{base}/metrics").read().decode()
        assert "legcf_model_reloads_total 0" not in text
        assert 'status="5xx"' not in text


def _fails(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from legcf.cli.app import main; main()", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_bad_files_and_ports(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    assert "does not exist" in _fails(str(tmp_path / "nowhere"))
    cut = tmp_path / "cut"
    cut.write_bytes(model_file.read_bytes()[:-100])
    assert "damaged" in _fails(str(cut))
    assert "damaged" in _fails(str(cut), "--workers", "2")
    assert "Cannot listen" in _fails(str(model_file), "--host", "203.0.113.1")
