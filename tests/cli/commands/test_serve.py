# SPDX-License-Identifier: Apache-2.0
"""`legcf serve` as a process: starts, answers, logs JSON, stops on SIGTERM with code 0; bad files give code 2."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from legcf.cli.app import app_for
from legcf.core.errors import UserError
from legcf.modelfile.served_model import ServedModel
from tests.cli.read_only import read_only
from tests.modelfile.test_container import sparse_file
from tests.served import model, model_file, toy  # noqa: F401 - fixtures

MAIN = "from legcf.cli.app import main; main()"


@contextmanager
def serving(
    path: Path, *options: str, inside: tuple[str, ...] = (), program: tuple[str, ...] = (sys.executable, "-c", MAIN)
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`inside` is a command that starts the server's command, `program` another `legcf`."""
    command = [*inside, *program, "serve", str(path), "--port", "0", *options]
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
            _wait_for_count(base, 'legcf_requests_total{route="similar",status="2xx"} 20.0')
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0
        events = [json.loads(line) for line in log.splitlines()]
        assert any(event["event"] == "request" and event["status"] == 404 for event in events)
        assert "stranger" not in log
        assert any(event["event"] == "stopped" for event in events)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_answers_to_this_machine_and_to_names_that_are_allowed(model_file: Path, workers: str) -> None:  # noqa: F811
    def status(base: str, host: str) -> int:
        try:
            answer = urllib.request.urlopen(urllib.request.Request(f"{base}/live", headers={"Host": host}), timeout=30)
        except urllib.error.HTTPError as error:
            return error.code
        return int(answer.status)

    with serving(model_file, "--workers", workers, "--allow-host", "shop.example") as (base, _):
        assert [status(base, host) for host in ("localhost", "shop.example", "evil.example")] == [200, 200, 403]
    if workers == "1":
        with serving(model_file) as (base, _):
            assert [status(base, host) for host in ("localhost:1", "shop.example")] == [200, 403]
        with serving(model_file, "--host", "0.0.0.0") as (base, _):
            assert [status(base, host) for host in ("localhost", "shop.example")] == [200, 200]


@pytest.mark.parametrize("name", ["https://shop.example", "shop.example:80", ""])
def test_a_name_that_is_none_is_refused(model_file: Path, name: str) -> None:  # noqa: F811
    with pytest.raises(UserError, match="--allow-host"):
        app_for("serve")(["serve", str(model_file), "--allow-host", name], standalone_mode=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_helper_comes_with_long_work_and_ends_with_the_server(model_file: Path, number: signal.Signals) -> None:  # noqa: F811
    with serving(model_file) as (base, process):
        server = psutil.Process(process.pid)
        _get(f"{base}/recommend/u1?k=3")
        assert not server.children()
        _get(f"{base}/recommend/u1?k=50&explain=50")
        (helper,) = server.children()
        process.send_signal(number)
        process.wait(60)
        helper.wait(60)


def test_swap_under_load_fails_no_request(model: ServedModel, tmp_path: Path) -> None:  # noqa: F811
    path, other = tmp_path / "model", tmp_path / "other"
    model.save(path)
    with serving(path, "--reload-seconds", "0.1", "--no-access-log") as (base, _):
        for turn in range(150):
            if turn % 30 == 0:
                model.save(other)
                os.replace(other, path)
            assert _get(f"{base}/recommend/u{turn % 60}?k=5")["items"]
            time.sleep(0.004)
        end = time.monotonic() + 30
        while "legcf_model_reloads_total 0.0" in (text := urllib.request.urlopen(f"{base}/metrics").read().decode()):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert 'status="5xx"' not in text


@pytest.mark.parametrize("workers", ["1", "2"])
def test_nothing_has_to_be_written_and_nobody_has_to_be_root(
    model: ServedModel,  # noqa: F811
    writable: Path,
    workers: str,
) -> None:
    """As a user without rights on a file system that is read-only everywhere, the temporary folders too."""
    model.save(writable / "model")
    with serving(writable / "model", "--workers", workers, inside=read_only()) as (base, _):
        assert _get(f"{base}/recommend/u1?k=3")["user"] == "u1"
        assert len(_get(f"{base}/recommend/u1?k=50&explain=50")["why"]) > 3  # type: ignore[arg-type]
        assert "legcf_requests_total" in urllib.request.urlopen(f"{base}/metrics").read().decode()


def _refused(*arguments: str) -> str:
    with pytest.raises(UserError) as caught:
        app_for(["serve"])(["serve", *arguments], standalone_mode=False)
    return str(caught.value)


def test_bad_files(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    cut = tmp_path / "cut"
    cut.write_bytes(model_file.read_bytes()[:-100])
    command = [sys.executable, "-c", MAIN, "serve", str(cut)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "damaged" in done.stderr
    assert "Traceback" not in done.stderr
    assert "damaged" in _refused(str(cut), "--port", "0", "--workers", "2")
    assert "does not exist" in _refused(str(tmp_path / "nowhere"), "--port", "0")


def test_addresses_that_cannot_be_had_say_which_option_to_change(model_file: Path) -> None:  # noqa: F811
    assert "no address of this machine" in _refused(str(model_file), "--host", "203.0.113.1")
    assert "--host nowhere.invalid is neither an address nor a name" in _refused(
        str(model_file), "--host", "nowhere.invalid"
    )
    assert "no slash at the end" in _refused(str(model_file), "--cors-origin", "https://shop.example/")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "choose another --port" in _refused(str(model_file), "--port", port)


def test_it_stops_while_a_file_without_end_is_read(model: ServedModel, tmp_path: Path) -> None:  # noqa: F811
    """The watcher reads a sparse file, for minutes and in little memory; a pipe in its stead is not read at all."""
    path = tmp_path / "model"
    model.save(path)
    with serving(path, "--reload-seconds", "0.1", "--no-access-log") as (base, process):
        server = psutil.Process(process.pid)
        os.mkfifo(tmp_path / "pipe")
        os.replace(tmp_path / "pipe", path)
        while "is gone" not in str(_get(f"{base}/ready")["warning"]):
            time.sleep(0.05)
        before = server.memory_info().rss
        os.replace(sparse_file(tmp_path / "sparse", 2**38), path)
        time.sleep(1)
        assert _get(f"{base}/recommend/u1?k=3")["user"] == "u1"
        assert server.memory_info().rss < before + 2**26
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_model_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for workers in ("1", "2"):
        assert "a pipe or a device" in _refused(str(tmp_path / "pipe"), "--port", "0", "--workers", workers)


def test_workers_end_with_a_parent_that_is_killed(model_file: Path, tmp_path: Path) -> None:  # noqa: F811
    counts = tmp_path / "counts"
    abandoned = counts / "legcf-serve-abandoned"
    abandoned.mkdir(parents=True)
    os.utime(abandoned, (0, 0))
    set_variable = ("env", f"PROMETHEUS_MULTIPROC_DIR={counts}")
    with serving(model_file, "--workers", "2", inside=set_variable) as (base, process):
        _get(f"{base}/recommend/u1?k=50&explain=50")
        family = psutil.Process(process.pid).children(recursive=True)
        (own,) = counts.iterdir()
        assert own != abandoned
        os.utime(own, (0, 0))
        with serving(model_file, "--workers", "2", inside=set_variable):
            assert own.is_dir()  # is in use, however old
        process.kill()
        process.wait(30)
        _, left = psutil.wait_procs(family, timeout=30)
        assert not left
        assert not own.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_serves_with_a_full_disk_behind_its_log(model_file: Path, workers: str) -> None:  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    command = [sys.executable, "-c", MAIN, "serve", str(model_file), "--port", port, "--workers", workers]
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(command, stderr=full, start_new_session=True)
    try:
        _wait(f"http://127.0.0.1:{port}")
        assert _get(f"http://127.0.0.1:{port}/recommend/u1?k=50&explain=50")["user"] == "u1"
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
