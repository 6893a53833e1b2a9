"""The files of a machine: configurations and the commands that its init keeps running."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from tests.e2e.provider.layout import DNS_SERVICE_IP, POD_CIDR, SERVICE_CIDR

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.provider.binaries import Binaries
    from tests.e2e.provider.layout import Layout, Machine

PAUSE_IMAGE: Final = "localhost/pause:1"
CNI_PLUGINS: Final = "/usr/lib/cni"
CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
ETCD: Final = "http://127.0.0.1:2379"
ETCD_PEER: Final = "http://127.0.0.1:2380"
NODE_GRACE_PERIOD_S: Final = 16
TOLERATION_S: Final = 10


def write_machines(layout: Layout, binaries: Binaries) -> None:
    """Write what every machine's init needs."""
    _write_control_plane(layout, binaries)
    for node in layout.workers:
        _write_node(layout, node, binaries)


def _write_program(machine: Machine, name: str, *words: object) -> None:
    directory = machine.directory / "run.d"
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\nexec {shlex.join(str(word) for word in words)}\n")
    program.chmod(0o755)


def _kubeconfigs(path: Path) -> tuple[str, ...]:
    kinds = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return tuple(f"--{kind}={path}" for kind in kinds)


def _write_control_plane(layout: Layout, binaries: Binaries) -> None:
    machine, pki = layout.control_plane, layout.pki
    kube = binaries.hyperkube
    _write_program(machine, "etcd", *_etcd_command(machine, kube))
    _write_program(machine, "apiserver", *_apiserver_command(layout, kube))
    _write_program(machine, "controllers", *_controllers_command(layout, kube))
    _write_program(
        machine,
        "scheduler",
        *(kube, "kube-scheduler", *_kubeconfigs(pki / "scheduler.kubeconfig")),
        *("--leader-elect=false", "--bind-address=127.0.0.1"),
    )
    corefile = machine.directory / "Corefile"
    corefile.write_text(_corefile(layout))
    _write_program(machine, "coredns", binaries.coredns, "-conf", corefile)


def _etcd_command(machine: Machine, kube: Path) -> tuple[object, ...]:
    return (
        *(kube, "etcd", "--name=cp", f"--data-dir={machine.directory / 'etcd'}"),
        *(f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}"),
        *(f"--listen-peer-urls={ETCD_PEER}", f"--initial-advertise-peer-urls={ETCD_PEER}"),
        *(f"--initial-cluster=cp={ETCD_PEER}", "--log-level=warn"),
        # A test cluster does not outlive its machine: it need not reach the disk.
        "--unsafe-no-fsync",
    )


def _apiserver_command(layout: Layout, kube: Path) -> tuple[object, ...]:
    pki = layout.pki
    return (
        *(kube, "kube-apiserver", f"--etcd-servers={ETCD}", "--secure-port=6443"),
        *(f"--advertise-address={layout.control_plane.address}", "--bind-address=0.0.0.0"),
        *(f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"),
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/service-accounts.pub",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        *(f"--service-cluster-ip-range={SERVICE_CIDR}", "--authorization-mode=Node,RBAC"),
        *("--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"),
        # The loss of a node shows within seconds.
        f"--default-not-ready-toleration-seconds={TOLERATION_S}",
        f"--default-unreachable-toleration-seconds={TOLERATION_S}",
    )


def _controllers_command(layout: Layout, kube: Path) -> tuple[object, ...]:
    pki = layout.pki
    return (
        *(kube, "kube-controller-manager", *_kubeconfigs(pki / "controllers.kubeconfig")),
        f"--service-account-private-key-file={pki}/service-accounts.key",
        *(f"--root-ca-file={pki}/ca.crt", f"--cluster-signing-cert-file={pki}/ca.crt"),
        f"--cluster-signing-key-file={pki}/ca.key",
        *("--use-service-account-credentials", "--leader-elect=false", "--bind-address=127.0.0.1"),
        f"--node-monitor-grace-period={NODE_GRACE_PERIOD_S}s",
        "--node-monitor-period=2s",
        # With the defaults the first service account is seconds late.
        *("--kube-api-qps=200", "--kube-api-burst=400"),
    )


def _corefile(layout: Layout) -> str:
    return f""".:53 {{
    bind {layout.control_plane.address}
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {layout.pki}/coredns.kubeconfig
        pods insecure
        ttl 5
    }}
    cache 5
    loadbalance
}}
"""


def _write_node(layout: Layout, node: Machine, binaries: Binaries) -> None:
    directory, kube = node.directory, binaries.hyperkube
    (directory / "cni").mkdir(parents=True)
    (directory / "cni" / "10-bridge.conflist").write_text(_cni_config(node))
    (directory / "containerd.toml").write_text(_containerd_config(directory))
    # No outer name server: a name that the cluster does not know is unknown at once.
    (directory / "resolv.conf").write_text("")
    (directory / "kubelet.json").write_text(json.dumps(_kubelet_config(layout, node)))
    (directory / "proxy.json").write_text(json.dumps(_proxy_config(layout, node)))
    _write_program(node, "containerd", "containerd", "--config", directory / "containerd.toml")
    _write_program(node, "proxy", kube, "kube-proxy", "--config", directory / "proxy.json")
    _write_program(
        node,
        "kubelet",
        *(kube, "kubelet", f"--config={directory / 'kubelet.json'}"),
        f"--kubeconfig={layout.pki / f'node-{node.name}.kubeconfig'}",
        *(f"--hostname-override={node.name}", f"--node-ip={node.address}"),
    )


def _cni_config(node: Machine) -> str:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": node.pod_cidr}]]},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "grid", "plugins": [bridge, portmap]})


def _containerd_config(directory: Path) -> str:
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Lowering oom_score_adj takes CAP_SYS_RESOURCE, which a container's root may lack.
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{directory}/cni"
"""


def _kubelet_config(layout: Layout, node: Machine) -> dict[str, object]:
    pki = layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "address": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/node-{node.name}.crt",
        "tlsPrivateKeyFile": f"{pki}/node-{node.name}.key",
        "clusterDomain": "cluster.local",
        "clusterDNS": [DNS_SERVICE_IP],
        "resolvConf": f"{node.directory}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "oomScoreAdj": 0,
        "failSwapOn": False,
        # Images come by hand: none may be collected, and a full disk is the host's affair.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "rotateCertificates": False,
        # A changed Secret is in its pods within seconds; the default is a minute.
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 12,
        "shutdownGracePeriod": "0s",
    }


def _proxy_config(layout: Layout, node: Machine) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": f"{layout.pki}/proxy.kubeconfig"},
        "clusterCIDR": POD_CIDR,
        # The limits of connection tracking belong to the host: leave them alone.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
