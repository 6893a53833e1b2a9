"""What `gridctl up` does about requests and states in the file, with the real member."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.unit.gridctl.running import Up, children, until

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = [{"name": name, "enabled": True} for name in ("Data", "ClusterWrite")]
KEPT: dict[str, Any] = {"enabled": True, "backup": {"volume": {}}}


def test_a_backup_by_annotation_becomes_the_data_of_another_cluster(up: Up, tmp_path: Path) -> None:
    up.write(persistence=KEPT)
    up.start()
    assert up.call("POST", "maps/default/kept", b"value")[0] == 200
    up.annotate(backup="first")
    until(lambda: up.ended("Backup"), "no backup")
    over = up.ended("Backup")
    assert over is not None
    assert (over["outcome"], over["request"]) == ("Succeeded", "first")
    assert up.call("POST", "maps/default/kept", b"later")[0] == 200
    place = tmp_path / "data" / "default" / ".claims" / "demo-backup" / "demo-0"
    assert [path.name for path in place.iterdir()] == ["backup-1"]
    assert up.stop() == 0

    copy = Up(tmp_path, "copy")
    copy.write(persistence=KEPT, restoreFrom={"cluster": "demo"})
    try:
        copy.start()
        assert copy.call("GET", "maps/default/kept") == (200, b"value")
        assert copy.call("POST", "maps/default/kept", b"own")[0] == 200
        assert copy.stop() == 0
        copy.start()
        assert copy.call("GET", "maps/default/kept") == (200, b"own"), "restored once only"
        assert copy.stop() == 0
    finally:
        copy.kill()


def test_a_request_is_carried_out_once_across_runs(up: Up) -> None:
    up.start()
    (before,) = children(up.pid)
    up.annotate(restart="a")
    until(lambda: up.ended("Restart"), "no restart")
    assert children(up.pid) != [before]
    assert up.stop() == 0
    up.start()
    over = up.ended("Restart")
    assert over is not None
    assert over["request"] == "a"
    assert len([o for o in up.state()["lastOperations"] if o["kind"] == "Restart"]) == 1
    assert up.stop() == 0


def test_stopped_has_no_process_and_running_has_the_data_again(up: Up) -> None:
    up.start()
    assert up.call("POST", "maps/default/kept", b"value")[0] == 200
    up.write(runState="Stopped")
    until(lambda: up.state().get("stopped"), "not stopped")
    until(lambda: children(up.pid) == [], "members are left")
    up.write(runState="Running")
    until(lambda: up.call("GET", "maps/default/kept") == (200, b"value"), "no data")
    until(lambda: up.call("POST", "maps/default/more", b"x")[0] == 200, "no write")
    assert up.stop() == 0


def test_a_member_that_was_shut_down_over_rest_is_replaced(up: Up) -> None:
    up.write(rest={"endpointGroups": GROUPS})
    up.start()
    assert up.call("POST", "maps/default/kept", b"value")[0] == 200
    (before,) = children(up.pid)
    url = f"http://{up.address}:5701/grid/rest/management/cluster/memberShutdown"
    with urllib.request.urlopen(urllib.request.Request(url, b"dev&"), timeout=5) as answer:
        assert json.load(answer)["status"] == "success"
    # It reads on for a moment after its answer: what is asked before it is gone says nothing.
    until(lambda: children(up.pid) not in ([], [before]), "not replaced")
    until(lambda: up.call("GET", "maps/default/kept") == (200, b"value"), "no data")
    assert "parked" in up.text()
    assert up.stop() == 0


def test_secrets_are_files_for_this_user_and_the_same_the_next_time(up: Up, tmp_path: Path) -> None:
    secrets = tmp_path / "data" / "default" / ".secrets"
    (secrets / "key").mkdir(parents=True)
    (secrets / "key" / "license").write_text("a-license", encoding="utf-8")
    users = [{"name": "ada", "secretName": "ada-login"}]
    up.write(
        security={"enabled": True, "users": users, "protected": ["Data"]},
        license={"secretName": "key"},
    )
    up.start()
    password = secrets / "ada-login" / "password"
    found = password.read_text(encoding="utf-8")
    assert len(found) >= 32
    assert found not in up.text()
    assert (password.stat().st_mode & 0o777, password.parent.stat().st_mode & 0o777) == (
        0o600,
        0o700,
    )
    assert {path.name for path in secrets.iterdir()} == {"key", "ada-login", "demo-identity"}
    until(lambda: up.ended("ApplyLive"), "no license was given")
    assert up.call("GET", "maps/default/kept")[0] == 401
    (line,) = [one for one in up.text().splitlines() if "maps/default/greeting" in one]
    told = subprocess.run(["bash", "-ec", line], capture_output=True, check=True, timeout=20)
    assert told.stdout == b"hello\n"
    assert up.stop() == 0
    up.start()
    assert password.read_text(encoding="utf-8") == found
    assert up.stop() == 0


def test_a_cluster_state_in_the_file_is_brought_about(up: Up) -> None:
    up.start()
    up.write(clusterState="Passive")
    until(lambda: up.state().get("appliedClusterState") == "Passive", "not passive")
    assert up.call("POST", "maps/default/kept", b"value")[0] == 503
    up.write(clusterState="Active")
    until(lambda: up.call("POST", "maps/default/kept", b"value")[0] == 200, "not active")
    assert up.stop() == 0
