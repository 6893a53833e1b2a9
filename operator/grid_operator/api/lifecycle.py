"""The part of a GridCluster's spec about its life: its states, its configuration file, its end."""

from enum import StrEnum


class Engine(StrEnum):
    """How the members' log is kept."""

    AUTO = "Auto"
    EMBEDDED = "Embedded"
    JET_STREAM = "JetStream"


class ClusterState(StrEnum):
    """A state that the members can be brought into."""

    ACTIVE = "Active"
    NO_MIGRATION = "NoMigration"
    FROZEN = "Frozen"
    PASSIVE = "Passive"


class DriftPolicy(StrEnum):
    """What is done when somebody else changed the cluster state."""

    REPORT = "Report"
    CORRECT = "Correct"
    ADOPT = "Adopt"


class RunState(StrEnum):
    """Whether there are members at all."""

    RUNNING = "Running"
    STOPPED = "Stopped"


class ConfigFormat(StrEnum):
    """Syntax of the members' configuration file."""

    YAML = "Yaml"
    XML = "Xml"


class DeletionPolicy(StrEnum):
    """What becomes of the data volumes when the GridCluster is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class LogFormat(StrEnum):
    """How a member writes its log."""

    TEXT = "Text"
    JSON = "Json"


class LogLevel(StrEnum):
    """The least important log lines that a member writes."""

    DEBUG = "Debug"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"
