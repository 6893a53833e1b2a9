"""Configurations made by chance from the table of settings itself: new settings take part."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from grid_member.config.build_cluster import MAX_CLUSTER_VALUE_BYTES
from grid_member.config.model.member import EndpointGroup
from grid_member.config.settings.setting import Setting, SettingKind
from grid_member.config.settings.shape import Shape, settings_shape

Tree = dict[str, Any]

ENVIRONMENT: Final = {"PORT": "7001", "SECRET": "a:b${c} <&>\"' ", "ON": "true", "WORD": "w"}
TRAPS: Final = (
    *("yes", "no", "on", "null", "~", "true", "1", "1e3", "0x10", "012", "1_000", "12:30"),
    *("2020-01-01", ".inf", "<<", "=", "!x", "&a", "*a", "- x", "? x", "a: b", "a #b", "#", "%a"),
    *("{", "}", "[", "]", ",", "|", ">", "@", "`", "'", '"', "'a'", '"a"', "\\n", "\\", "---"),
    *(" a", "a ", "  ", "\t", "\n", "\r", "\r\n", "a\nb", "a \n b", "\na", "a\n", "\x7f", "\x85"),
    *("<a>", "</grid>", "]]>", "<![CDATA[a]]>", "&amp;", "&", "<!-- a -->", "<?a?>", "a\u00a0"),
    *("é", "\u2028", "\ufeff", "\U0001f600", "$", "$${WORD}", "x" * 200),
)
VARIABLES: Final = ("${WORD}", "${SECRET}", "a${WORD}b", "${MISSING:d}", "${MISSING:}x", "${A:$B}")
_CHARACTERS: Final = st.characters(
    exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff", include_characters="\t\n\r"
)
TEXTS: Final = (
    st.sampled_from(TRAPS)
    | st.sampled_from(VARIABLES)
    | st.text(_CHARACTERS, min_size=1, max_size=12).filter(lambda text: "${" not in text)
)
REALMS: Final = st.sampled_from(["ops", "r 1", "<r>", "null"])
ADDRESSES: Final = st.sampled_from(["127.0.0.1", "::1", "*", "${ADDRESS:10.0.0.1}"])
MEMBERS: Final = st.sampled_from(["a", "b.c:5701", "10.0.0.1", "[::1]:5701", "${MISSING:d}"])
WORDS: Final = st.sampled_from(["a", "a*", "*", "b c", "${WORD}", "<&>"])
PROTECTED: Final = st.sampled_from(["DATA", "clusterread", "/grid/rest/maps", "/nowhere"])
NAMES: Final = st.sampled_from(["default", "a", "a*", "*b", "x.y", "1", *TRAPS]) | st.text(
    _CHARACTERS, min_size=1, max_size=6
)
EXACT_GROUPS: Final = [group.value for group in EndpointGroup]
LOOSE_GROUPS: Final = [
    *EXACT_GROUPS,
    *(value.lower() for value in EXACT_GROUPS),
    *(value.replace("_", "").title() for value in EXACT_GROUPS),
]


def trees() -> st.SearchStrategy[Tree]:
    """Return configurations that fit the table; what spans several elements may be wrong."""
    return _section(settings_shape())


def valid_trees() -> st.SearchStrategy[Tree]:
    """Return configurations that a member can run with."""
    return trees().map(_settled)


def _node(shape: Shape) -> st.SearchStrategy[Any]:
    if shape.setting is not None:
        return _leaf(shape.setting)
    if shape.items is not None:
        return st.lists(_node(shape.items), max_size=3)
    if shape.any_name is not None:
        names = NAMES
        if shape.path.endswith("endpoint-groups"):
            exact = shape.path.startswith("advanced-network")
            names = st.sampled_from(EXACT_GROUPS if exact else LOOSE_GROUPS)
        return _often(st.dictionaries(names, _node(shape.any_name), max_size=3))
    return _often(_section(shape))


@st.composite
def _often(draw: st.DrawFn, below: st.SearchStrategy[Tree]) -> Tree | None:
    return draw(below) if draw(st.integers(0, 7)) else None


@st.composite
def _section(draw: st.DrawFn, shape: Shape) -> Tree:
    known = [name for name, below in shape.below.items() if below.refusal is None]
    # Two in three, or most of what stands deep would never be there.
    chosen = [name for name in known if draw(st.integers(0, 2))]
    return {name: draw(_node(shape.below[name])) for name in chosen}


def _leaf(setting: Setting) -> st.SearchStrategy[Any]:
    if setting.path.endswith(".public-address"):
        return MEMBERS
    if setting.kind is SettingKind.BOOLEAN and setting.refused_values:
        taken = str(setting.default)
        return st.sampled_from([setting.default, taken.lower(), f" {taken.upper()} "])
    if setting.kind is SettingKind.BOOLEAN:
        return st.booleans() | st.sampled_from(["true", "False", " TRUE ", "${ON}"])
    if setting.kind is SettingKind.INTEGER:
        numbers = st.integers(setting.low, setting.high)
        return (
            numbers | numbers.map(lambda n: f" {n}\n") | numbers.map(lambda n: f"${{MISSING:{n}}}")
        )
    if setting.choices:
        words = st.sampled_from(setting.choices)
        if setting.drops_package:
            words |= words.map(lambda word: f"com.example.{word}")
        return (
            words
            | words.map(lambda word: f" {word.lower()}\t")
            | words.map(lambda word: f"${{MISSING:{word}}}")
        )
    return next((drawn for end, drawn in _BY_END.items() if setting.path.endswith(end)), TEXTS)


_BY_END: Final = {
    ".interfaces.[]": ADDRESSES,
    ".accepted-clusters.[]": WORDS,
    ".include.[]": WORDS,
    ".exclude.[]": WORDS,
    ".protected.[]": PROTECTED,
    ".member-list.[]": MEMBERS,
    ".members": MEMBERS,
    "realm": REALMS,
    "realms.[].name": REALMS,
}


def _settled(tree: Tree) -> Tree:
    """Take away what contradicts."""
    settled = {name: below for name, below in tree.items() if name != "cluster-name"}
    if "cluster-name" in tree:
        settled["cluster-name"] = tree["cluster-name"].replace("&", "+").replace("SECRET", "WORD")
    if "cp-member-count" in (settled.get("cp-subsystem") or {}):
        settled["cp-subsystem"] = {"cp-member-count": 3}
    if (settled.get("persistence") or {}).get("backup-dir"):
        settled["persistence"] = {**settled["persistence"], "base-dir": "a", "backup-dir": "b"}
    if (settled.get("shutdown") or {}).get("parked-file"):
        settled["shutdown"] = {"parked-file": "c"}
        settled["persistence"] = {**(settled.get("persistence") or {}), "base-dir": "a"}
    _settle_network(settled)
    for kind in ("map", "queue"):
        if settled.get(kind):
            settled[kind] = _settled_structures(settled[kind], settled)
    _settle_cluster(settled)
    _settle_wan(settled)
    return settled


def _settle_network(tree: Tree) -> None:
    advanced = tree.get("advanced-network") or {}
    if _on(advanced.get("enabled")):
        tree.pop("network", None)
    endpoints = (v for v in advanced.values() if isinstance(v, dict))
    listening = [tree.get("network") or {}, *endpoints, tree.get("metrics") or {}]
    for section in listening:
        _settle_interfaces(section)
        for listener in (section, section.get("management"), section.get("rest-api")):
            _settle_groups(listener or {})
            _settle_tls((listener or {}).get("ssl"))
    realm = {
        "name": "ops",
        "authentication": {"simple": {"users": [_USER]}},
        "identity": {"username-password": _USER},
    }
    tree["security"] = {"realms": [realm]}
    for listener in (listening[0].get("management"), advanced.get(_MANAGEMENT)):
        if listener is not None:
            listener["realm"] = "ops"
            listener["port"] = {"port": 0}
    _settle_wan_listener(listening[0], "wan")
    _settle_wan_listener(advanced, _WAN)
    if tree.get("metrics"):
        tree["metrics"]["port"] = {"port": 0}
    if advanced.get(_MANAGEMENT, 0) is None:
        advanced[_MANAGEMENT] = {"realm": "ops"}


def _settle_wan_listener(network: Tree, name: str) -> None:
    if name not in network:
        return
    listener = network[name] = (network[name] or {}) | {"realm": "ops", "port": {"port": 0}}
    if "ssl" in listener:
        listener["ssl"] = (listener["ssl"] or {}) | {"ca-file": "ca.crt"}
        _settle_tls(listener["ssl"])


def _settle_cluster(tree: Tree) -> None:
    advanced = tree.get("advanced-network") or {}
    network = tree.get("network") or {}
    for section, members in ((network, "cluster"), (advanced, _MEMBERS)):
        _settle_members((section.get("join") or {}).get("tcp-ip") or {})
        if "port" in (section.get(members) or {}):
            section[members]["port"] = {"port": 4001}
        if (section.get(members) or {}).get("ssl"):
            files = {"certificate-file": "m.crt", "key-file": "${WORD}", "ca-file": "ca.crt"}
            section[members]["ssl"] |= files
        for interfaces in (section, section.get(members) or {}):
            if (interfaces.get("interfaces") or {}).get("interfaces"):
                interfaces["interfaces"]["interfaces"][1:] = []
    joining = ((advanced if _on(advanced.get("enabled")) else network).get("join") or {}).get(
        "tcp-ip"
    ) or {}
    several = "members" in joining or len(joining.get("member-list") or ()) > 1
    if not _on(joining.get("enabled")) or not several:
        tree.pop("lite-member", None)
        return
    tree.pop("wan-replication", None)
    network.pop("wan", None)
    advanced.pop(_WAN, None)
    # Several members take smaller values than a member alone.
    if "value-bytes" in (tree.get("limits") or {}):
        tree["limits"]["value-bytes"] = MAX_CLUSTER_VALUE_BYTES
    # A map and a queue may have the same name.
    found = [*(tree.get("map") or {}).values(), *(tree.get("queue") or {}).values()]
    for structure in found:
        if structure and "backup-count" in structure:
            structure["backup-count"] = 2


def _settle_wan(tree: Tree) -> None:
    taking = tree.get("wan") or {}
    if "accepted-clusters" in taking:
        tree["wan"] = taking | {"accepted-clusters": taking["accepted-clusters"] or ["a"]}
    replications = {
        name.replace("&", "+"): replication
        for name, replication in (tree.get("wan-replication") or {}).items()
    }
    for replication in filter(None, replications.values()):
        publishers = replication.get("batch-publisher") or {}
        settled = {
            name.replace("&", "+"): (publisher or {}) | _PUBLISHER
            for name, publisher in publishers.items()
        }
        for publisher in settled.values():
            publisher["ssl"] = {"enabled": False}
        if publishers:
            replication["batch-publisher"] = settled
    if "wan-replication" in tree:
        tree["wan-replication"] = replications
    for block in filter(None, (tree.get("map") or {}).values()):
        references = [
            each or {} for each in (block.pop("wan-replication-ref", None) or {}).values()
        ]
        if references and replications:
            for kind in ("include", "exclude"):
                if (references[0].get("key-filter") or {}).get(kind):
                    references[0]["key-filter"][kind] = ["a*", "${WORD}"]
            block["wan-replication-ref"] = {next(iter(replications)): references[0]}


def _settle_members(tcp_ip: Tree) -> None:
    if "member-list" in tcp_ip:
        tcp_ip["member-list"] = list(_DISTINCT[: len(tcp_ip["member-list"])])
    if "members" in tcp_ip:
        tcp_ip["members"] = "e,\tf.g:4003 ,${MISSING:h}"


def _settle_tls(ssl: Tree | None) -> None:
    if not ssl:
        return
    ssl |= {"certificate-file": "tls.crt", "key-file": "${WORD}/tls.key"}
    ssl.pop("client-ca-file", None)
    if "client-certificates" in ssl:
        ssl |= {"client-certificates": "required", "client-ca-file": "ca.crt"}


_PUBLISHER: Final = {
    "cluster-name": "${WORD}",
    "target-endpoints": "a.example, [::1]:7000",
    "realm": "ops",
    "max-concurrent-invocations": 3,
}
_WAN: Final = "wan-server-socket-endpoint-config"
_USER: Final = {"username": "${WORD}", "password": "${SECRET}"}
_MEMBERS: Final = "member-server-socket-endpoint-config"
_DISTINCT: Final = ("a", "b.c:4002", "${MISSING:d}")
_MANAGEMENT: Final = "management-server-socket-endpoint-config"


def _settle_interfaces(section: Tree) -> None:
    interfaces = section.get("interfaces")
    if interfaces and not interfaces.get("interfaces"):
        interfaces["interfaces"] = ["127.0.0.1"]
    elif interfaces is not None and not interfaces:
        section["interfaces"] = {"enabled": False}


def _settle_groups(listener: Tree) -> None:
    groups = listener.get("endpoint-groups") or {}
    seen: dict[str, str] = {}
    for name in list(groups):
        if seen.setdefault(name.replace("_", "").upper(), name) != name:
            del groups[name]


def _settled_structures(structures: Tree, tree: Tree) -> Tree:
    kept = _on((tree.get("persistence") or {}).get("enabled"))
    # One wildcard alone cannot be ambiguous.
    wild = [name for name in structures if "*" in name][:1]
    names = [name for name in structures if "*" not in name or name in wild]
    return {_one_star(name): _settled_structure(structures[name], kept) for name in names}


def _one_star(name: str) -> str:
    head, star, tail = name.partition("*")
    return head + star + tail.replace("*", "")


def _settled_structure(structure: Tree | None, kept: bool) -> Tree | None:
    if structure is None:
        return None
    settled = {name: below for name, below in structure.items() if name != "async-backup-count"}
    if not kept and settled.get("data-persistence"):
        settled["data-persistence"] = {"enabled": False}
    elif settled.get("data-persistence"):
        settled["data-persistence"] = {"enabled": True, "fsync": False}
    if settled.get("eviction"):
        settled["eviction"] = {**settled["eviction"], "eviction-policy": "lru", "size": 7}
    return settled


def _on(value: object) -> bool:
    return str(value).strip().lower() in ("true", "${on}")
