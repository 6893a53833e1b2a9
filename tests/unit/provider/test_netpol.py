"""NetworkPolicies of the native provider, compiled to packet filter rules."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.provider.native.netpol import Pod, Snapshot, node_ruleset, pod_of

NODE = "n1"
WEB = Pod("shop", "web", {"app": "web"}, "10.0.0.1", NODE, {("http", "tcp"): 8080})
FRIEND = Pod("shop", "friend", {"role": "friend"}, "10.0.0.2", "n2", {("http", "tcp"): 80})
OTHER = Pod("shop", "other", {"role": "other"}, "10.0.0.3", "n2", {("http", "udp"): 81})
ABROAD = Pod("bank", "abroad", {"role": "friend"}, "10.0.1.1", "n2")
NAMESPACES = {"shop": {"kind": "shop"}, "bank": {"kind": "bank", "trusted": "yes"}}
ALL_PODS = (WEB, FRIEND, OTHER, ABROAD)


def policy(
    *, name: str = "p", namespace: str = "shop", selector: Any = None, **spec: Any
) -> dict[str, Any]:
    """Return a policy that selects the pod WEB unless told otherwise."""
    selector = {"matchLabels": {"app": "web"}} if selector is None else selector
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": selector, **spec},
    }


def compiled(*policies: dict[str, Any], node: str = NODE) -> dict[str, list[str]]:
    """Return the rules of each chain of a node."""
    script = node_ruleset(Snapshot(ALL_PODS, NAMESPACES, policies), node)
    return {
        name: [line.strip() for line in body.splitlines() if line.strip()]
        for name, body in re.findall(r"^chain (\w+) \{\n(.*?)^\}", script, re.DOTALL | re.MULTILINE)
    }


def ingress(*rules: dict[str, Any]) -> list[str]:
    """Return the rules for what reaches the pod WEB under one policy with these rules."""
    return compiled(policy(ingress=list(rules)))["pod0_ingress"]


def egress(*rules: dict[str, Any]) -> list[str]:
    """Return the rules for what leaves the pod WEB under one policy with these rules."""
    return compiled(policy(policyTypes=["Egress"], egress=list(rules)))["pod0_egress"]


@pytest.mark.parametrize(
    ("peer", "addresses"),
    [
        ({"podSelector": {}}, "10.0.0.1, 10.0.0.2, 10.0.0.3"),
        ({"podSelector": {"matchLabels": {"role": "friend"}}}, "10.0.0.2"),
        ({"namespaceSelector": {}}, "10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.1.1"),
        ({"namespaceSelector": {"matchLabels": {"trusted": "yes"}}}, "10.0.1.1"),
        (
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "friend"}}},
            "10.0.0.2, 10.0.1.1",
        ),
        (
            {
                "podSelector": {
                    "matchExpressions": [
                        {"key": "role", "operator": "In", "values": ["friend", "other"]},
                        {"key": "role", "operator": "NotIn", "values": ["other"]},
                    ]
                }
            },
            "10.0.0.2",
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "role", "operator": "DoesNotExist"}]}},
            "10.0.0.1",
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "role", "operator": "Exists"}]}},
            "10.0.0.2, 10.0.0.3",
        ),
    ],
)
def test_a_peer_is_the_addresses_of_the_pods_that_it_selects(
    peer: dict[str, Any], addresses: str
) -> None:
    assert ingress({"from": [peer]}) == [f"ip saddr {{ {addresses} }} return", "drop"]
    assert egress({"to": [peer]}) == [f"ip daddr {{ {addresses} }} return", "drop"]


@pytest.mark.parametrize(
    "peer",
    [
        {"podSelector": {"matchLabels": {"role": "nobody"}}},
        {"namespaceSelector": {"matchLabels": {"kind": "none"}}},
        {
            "namespaceSelector": {"matchLabels": {"kind": "bank"}},
            "podSelector": {"matchLabels": {"role": "other"}},
        },
        {"ipBlock": {"cidr": "fd00::/8"}},
    ],
)
def test_a_peer_that_selects_nothing_allows_nothing(peer: dict[str, Any]) -> None:
    assert ingress({"from": [peer]}) == ["drop"]
    assert egress({"to": [peer]}) == ["drop"]


@pytest.mark.parametrize(
    ("block", "match"),
    [
        ({"cidr": "192.0.2.0/24"}, "ip saddr 192.0.2.0/24"),
        (
            {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.0.0/16"]},
            "ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16, 10.2.0.0/16 }",
        ),
        ({"cidr": "0.0.0.0/0", "except": []}, "ip saddr 0.0.0.0/0"),
    ],
)
def test_a_block_matches_all_but_its_exceptions(block: dict[str, Any], match: str) -> None:
    assert ingress({"from": [{"ipBlock": block}]}) == [f"{match} return", "drop"]
    outwards = match.replace("saddr", "daddr")
    assert egress({"to": [{"ipBlock": block}]}) == [f"{outwards} return", "drop"]


@pytest.mark.parametrize(
    ("port", "match"),
    [
        ({"port": 80}, "tcp dport 80"),
        ({"port": 53, "protocol": "UDP"}, "udp dport 53"),
        ({"port": 8000, "endPort": 8010, "protocol": "SCTP"}, "sctp dport 8000-8010"),
        ({"protocol": "UDP"}, "meta l4proto udp"),
        ({}, "meta l4proto tcp"),
    ],
)
def test_a_port_matches_number_range_or_whole_protocol(port: dict[str, Any], match: str) -> None:
    assert ingress({"ports": [port]}) == [f"{match} return", "drop"]
    assert egress({"ports": [port]}) == [f"{match} return", "drop"]


def test_a_named_port_is_the_receivers_own() -> None:
    named = {"ports": [{"port": "http"}]}
    assert ingress(named) == ["tcp dport 8080 return", "drop"]
    assert egress(named) == [
        "ip daddr 10.0.0.1 tcp dport 8080 return",
        "ip daddr 10.0.0.2 tcp dport 80 return",
        "drop",
    ]


@pytest.mark.parametrize(
    "port", [{"port": "metrics"}, {"port": "http", "protocol": "SCTP"}], ids=["name", "protocol"]
)
def test_a_named_port_that_nobody_has_allows_nothing(port: dict[str, Any]) -> None:
    assert ingress({"ports": [port]}) == ["drop"]
    assert egress({"ports": [port]}) == ["drop"]


def test_a_rule_demands_peer_and_port_at_once() -> None:
    peers = [
        {"podSelector": {"matchLabels": {"role": "friend"}}},
        {"ipBlock": {"cidr": "1.0.0.0/8"}},
    ]
    ports = [{"port": 80}, {"port": "http"}]
    assert ingress({"from": peers, "ports": ports}) == [
        "ip saddr 1.0.0.0/8 tcp dport 80 return",
        "ip saddr 1.0.0.0/8 tcp dport 8080 return",
        "ip saddr { 10.0.0.2 } tcp dport 80 return",
        "ip saddr { 10.0.0.2 } tcp dport 8080 return",
        "drop",
    ]


@pytest.mark.parametrize("rule", [{}, {"from": [], "to": [], "ports": []}])
def test_an_empty_rule_allows_everything(rule: dict[str, Any]) -> None:
    assert ingress(rule) == ["return", "drop"]
    assert egress(rule) == ["return", "drop"]


@pytest.mark.parametrize(
    ("spec", "chains"),
    [
        ({}, ["pod0_ingress"]),
        ({"ingress": []}, ["pod0_ingress"]),
        ({"policyTypes": ["Ingress"]}, ["pod0_ingress"]),
        ({"policyTypes": ["Egress"]}, ["pod0_egress"]),
        ({"policyTypes": ["Ingress", "Egress"]}, ["pod0_ingress", "pod0_egress"]),
    ],
)
def test_a_policy_without_rules_denies_what_it_is_about(
    spec: dict[str, Any], chains: list[str]
) -> None:
    rules = compiled(policy(**spec))
    rules.pop("forward")
    assert rules == {chain: ["drop"] for chain in chains}


def test_egress_rules_make_a_policy_about_both_directions() -> None:
    rules = compiled(policy(egress=[{"ports": [{"port": 53, "protocol": "UDP"}]}]))
    assert rules["pod0_ingress"] == ["drop"]
    assert rules["pod0_egress"] == ["udp dport 53 return", "drop"]


def test_rules_of_a_direction_that_a_policy_is_not_about_are_ignored() -> None:
    rules = compiled(policy(policyTypes=["Egress"], ingress=[{}], egress=[]))
    assert "pod0_ingress" not in rules
    assert rules["pod0_egress"] == ["drop"]


def test_packets_of_the_selected_pod_go_through_its_chains_and_answers_pass() -> None:
    rules = compiled(policy(policyTypes=["Ingress", "Egress"]))
    assert rules["forward"] == [
        "type filter hook forward priority filter - 10; policy accept;",
        "ct state established,related accept",
        "ip daddr 10.0.0.1 jump pod0_ingress",
        "ip saddr 10.0.0.1 jump pod0_egress",
    ]


@pytest.mark.parametrize(
    "elsewhere",
    [
        policy(selector={"matchLabels": {"app": "another"}}),
        policy(namespace="bank", selector={}),
    ],
    ids=["other pods", "other namespace"],
)
def test_a_policy_leaves_pods_alone_that_it_does_not_select(elsewhere: dict[str, Any]) -> None:
    assert list(compiled(elsewhere)) == ["forward"]


def test_an_empty_selector_is_for_every_pod_of_the_namespace_on_its_node() -> None:
    everybody = policy(selector={})
    assert list(compiled(everybody)) == ["pod0_ingress", "forward"]
    second = compiled(everybody, node="n2")
    assert [rule for rule in second["forward"] if "jump" in rule] == [
        "ip daddr 10.0.0.2 jump pod1_ingress",
        "ip daddr 10.0.0.3 jump pod2_ingress",
    ]


def test_policies_add_up_and_equal_rules_stand_once() -> None:
    first = policy(name="a", ingress=[{"ports": [{"port": 80}]}, {"ports": [{"port": 81}]}])
    second = policy(name="b", ingress=[{"ports": [{"port": 80}]}])
    rules = ["tcp dport 80 return", "tcp dport 81 return", "drop"]
    assert compiled(first, second)["pod0_ingress"] == rules
    assert compiled(second, first)["pod0_ingress"] == rules


def test_the_script_replaces_what_was_there_before() -> None:
    lines = node_ruleset(Snapshot((), {}, ()), NODE).splitlines()
    assert lines[:3] == [
        "table inet grid_netpol {}",
        "delete table inet grid_netpol",
        "table inet grid_netpol {",
    ]


def pod_object(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "web", "labels": {"app": "web"}},
        "spec": {
            "nodeName": NODE,
            "containers": [
                {"ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9}]},
                {"ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
                {},
            ],
        },
        "status": {"podIP": "10.0.0.1", "phase": "Running", **status},
    }


def test_a_pod_is_known_by_labels_address_node_and_named_ports() -> None:
    ports = {("http", "tcp"): 8080, ("dns", "udp"): 53}
    assert pod_of(pod_object()) == Pod("shop", "web", {"app": "web"}, "10.0.0.1", NODE, ports)


@pytest.mark.parametrize("status", [{"podIP": None}, {"phase": "Succeeded"}, {"phase": "Failed"}])
def test_a_pod_without_an_address_of_its_own_is_none(status: dict[str, Any]) -> None:
    assert pod_of(pod_object(**status)) is None


def test_a_pod_on_its_nodes_network_is_none() -> None:
    obj = pod_object()
    obj["spec"]["hostNetwork"] = True
    assert pod_of(obj) is None
