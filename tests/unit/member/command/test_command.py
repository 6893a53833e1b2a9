"""`grid-member config …`: check, convert and schema, as a user calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grid_member.command.line import main
from grid_member.config import ConfigError, parse_config
from grid_member.config.schema.json_schema import json_schema
from grid_member.config.schema.xsd import xml_schema
from tests.unit.member.running import NETWORKS, configuration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "grid: {cluster-name: '${CLUSTER}', instance-name: '${INSTANCE:one}', network: {}}"


@pytest.fixture(autouse=True)
def no_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("GRID_") or name in {"CLUSTER", "INSTANCE"}:
            monkeypatch.delenv(name)


def written(directory: Path, text: str, name: str = "grid.yaml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


def test_the_command_is_what_main_does(tmp_path: Path) -> None:
    file = written(tmp_path, "grid: {}")
    command = [sys.executable, "-m", "grid_member", "config", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: fine\n", "")


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("syntax", "name"), [("yaml", "grid.yaml"), ("xml", "grid.xml")])
def test_check_of_a_good_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], network: str, syntax: str, name: str
) -> None:
    text = configuration(network=network, syntax="xml" if syntax == "xml" else "yaml")
    file = written(tmp_path, text, name)
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr() == (f"{file}: fine\n", "")


def test_check_tells_all_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "grid:\n  netwrk: {}\n  network: {port: {port: many}}\n")
    assert main(["config", "check", str(file)]) == 2
    assert capsys.readouterr() == (
        "",
        f"{file}:2:3: netwrk: unknown element, perhaps network is meant\n"
        f"{file}:3:20: network.port.port: must be an integer\n",
    )


def test_check_of_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr() == ("", f"{tmp_path}/none.yaml:1:1: No such file or directory\n")


def test_check_applies_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "grid: {}")
    monkeypatch.setenv("GRID_MEMBER_NETWORK_PORT_PORT", "many")
    assert main(["config", "check", str(file)]) == 2
    told = "GRID_MEMBER_NETWORK_PORT_PORT: network.port.port: must be an integer\n"
    assert capsys.readouterr().err == told


def test_missing_variables_are_an_error_unless_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, SECRET)
    assert main(["config", "check", str(file)]) == 2
    told = f"{file}:1:8: cluster-name: the environment variable CLUSTER is not set\n"
    assert capsys.readouterr().err == told
    command = ["config", "check", "--ignore-missing-variables", str(file)]
    assert main(command) == 0
    assert capsys.readouterr() == (f"{file}: fine as far as it can be told without CLUSTER\n", "")
    monkeypatch.setenv("CLUSTER", "prod")
    assert main(command) == 0
    assert capsys.readouterr() == (f"{file}: fine\n", "")


def test_ignoring_missing_variables_ignores_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, SECRET.replace("network: {}", "network: {port: {port: -1}}"))
    assert main(["config", "check", "--ignore-missing-variables", str(file)]) == 2
    assert "network.port.port: must be from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("network", NETWORKS)
def test_convert_there_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], network: str
) -> None:
    file = written(tmp_path, configuration(network=network))
    as_xml, as_yaml = tmp_path / "out.xml", tmp_path / "out.yaml"
    assert main(["config", "convert", str(file), "--output", str(as_xml)]) == 0
    assert main(["config", "convert", str(as_xml), "--output", str(as_yaml)]) == 0
    assert as_xml.read_text().startswith("<")
    models = [parse_config(f.read_text(), f.name, {}) for f in (file, as_xml, as_yaml)]
    assert models == models[:1] * 3
    assert main(["config", "convert", str(as_xml)]) == 0
    assert capsys.readouterr() == (as_yaml.read_text(), "")
    assert main(["config", "convert", str(as_xml), "--to", "xml"]) == 0
    assert capsys.readouterr() == (as_xml.read_text(), "")


def test_convert_keeps_variables_and_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "convert", str(written(tmp_path, SECRET))]) == 0
    shown = capsys.readouterr().out
    assert "${CLUSTER}" in shown
    assert "${INSTANCE:one}" in shown


def test_convert_refuses_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "grid: {netwrk: {}}")
    output = tmp_path / "out.xml"
    assert main(["config", "convert", str(file), "--output", str(output)]) == 2
    assert "unknown element" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["grid.yaml", "other.xml"])
def test_convert_overwrites_when_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = written(tmp_path, "grid: {}")
    output = tmp_path / name
    output.write_text("grid: {}")
    command = ["config", "convert", str(file), "--output", str(output)]
    assert main(command) == 2
    assert capsys.readouterr() == ("", f"{output}: is there: say --overwrite\n")
    assert output.read_text() == "grid: {}"
    assert main([*command, "--overwrite"]) == 0
    assert output.read_text().startswith("<?xml")


def test_convert_lets_nobody_new_read(tmp_path: Path) -> None:
    file = written(tmp_path, "grid: {}")
    file.chmod(0o640)
    output = tmp_path / "out.xml"
    assert main(["config", "convert", str(file), "--output", str(output)]) == 0
    assert output.stat().st_mode & 0o777 == 0o640


def test_a_variable_inside_a_variable_is_an_error_without_their_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "grid: {cluster-name: '${CLUSTER}', instance-name: '${A:${B}}'}")
    for command in (["check", str(file), "--ignore-missing-variables"], ["convert", str(file)]):
        assert main(["config", *command]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert f"{file}:1:36: instance-name: holds ${{ that is no whole" in shown.err


def test_convert_writes_where_a_link_leads(tmp_path: Path) -> None:
    file = written(tmp_path, "grid: {}")
    target, link = tmp_path / "elsewhere" / "target.xml", tmp_path / "link.xml"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to("elsewhere/target.xml")
    command = ["config", "convert", str(file), "--output", str(link)]
    assert main(command) == 2
    assert target.read_text() == "old"
    assert main([*command, "--overwrite"]) == 0
    assert link.is_symlink()
    assert target.read_text().startswith("<?xml")
    assert list(target.parent.iterdir()) == [target]


def test_convert_replaces_nothing_but_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, pipe = written(tmp_path, "grid: {}"), tmp_path / "pipe"
    os.mkfifo(pipe)
    command = ["config", "convert", str(file), "--output", str(pipe), "--overwrite"]
    assert main(command) == 2
    assert capsys.readouterr() == ("", f"{pipe}: is no file\n")
    assert pipe.is_fifo()


def test_an_output_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "grid: {}")
    output = tmp_path / "none" / "out.xml"
    assert main(["config", "convert", str(file), "--output", str(output)]) == 2
    assert capsys.readouterr() == ("", f"{output}: No such file or directory\n")
    output = tmp_path / "directory"
    output.mkdir()
    command = ["config", "convert", str(file), "--output", str(output), "--overwrite"]
    assert main(command) == 2
    assert capsys.readouterr() == ("", f"{output}: is no file\n")
    assert sorted(tmp_path.iterdir()) == [output, file]


@pytest.mark.parametrize(("kind", "schema"), [("json", json_schema), ("xsd", xml_schema)])
def test_schema(capsys: pytest.CaptureFixture[str], kind: str, schema: Callable[[], str]) -> None:
    assert main(["config", "schema", "--format", kind]) == 0
    assert capsys.readouterr() == (schema(), "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["config"],
        ["config", "check"],
        ["config", "schema"],
        ["config", "schema", "--format", "html"],
        ["config", "convert", "x", "--to", "json"],
        ["--config", "x", "config", "check", "y"],
        ["start"],
    ],
)
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_the_default_configuration_can_be_overridden_wrongly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRID_MEMBER_NETWORK_PORT_PORT", "many")
    assert main([]) == 2
    told = "GRID_MEMBER_NETWORK_PORT_PORT: network.port.port: must be an integer\n"
    assert capsys.readouterr().err == told
    with pytest.raises(ConfigError):
        parse_config("grid: {}", "f", {"GRID_MEMBER_NETWORK_PORT_PORT": "many"})


def test_check_names_variables_that_are_no_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRID_MEMBER_NETWRK_PORT_PORT", "1")
    monkeypatch.setenv("GRID_CACHE_SIZE", "9")
    file = written(tmp_path, "grid: {}")
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr() == (
        f"{file}: fine\n",
        "environment variables that are no setting are ignored: GRID_MEMBER_NETWRK_PORT_PORT "
        "(perhaps GRID_MEMBER_NETWORK... is meant)\n",
    )
