#!/bin/sh
# The init process of one machine: the first process in its own pid, mount, uts, ipc and network
# namespaces. It prepares the machine and keeps every program of run.d running; all of them die
# with it.
#
# usage: init.sh control-plane|node NAME DIRECTORY CGROUP
set -eu
umask 022
role=$1 name=$2 directory=$3 cgroup=$4

prepare_node() {
    # A node uses the default paths; its own directories are laid over the host's, in this
    # namespace only.
    mkdir -p "$directory/var/lib" "$directory/var/log"
    mount --bind "$directory/var/lib" /var/lib
    mount --bind "$directory/var/log" /var/log
    mkdir -p /var/lib/kubelet /var/log/pods /var/log/containers /run/containerd
    echo 1 >/proc/sys/net/ipv4/ip_forward
    # Two pods of one node talk over the bridge; with this the packet filter sees them too.
    echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
    join_cgroups
}

join_cgroups() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mkdir -p "/sys/fs/cgroup/$cgroup/system"
        echo 0 >"/sys/fs/cgroup/$cgroup/system/cgroup.procs"
        for controller in $(cat "/sys/fs/cgroup/$cgroup/cgroup.controllers"); do
            echo "+$controller" >"/sys/fs/cgroup/$cgroup/cgroup.subtree_control" || true
        done
        return
    fi
    for controller in /sys/fs/cgroup/*; do
        case $controller in */unified) continue ;; esac
        [ -e "$controller/cgroup.procs" ] || continue
        # Without this a new cpuset has neither processors nor memory and accepts no process.
        if [ -e "$controller/cpuset.cpus" ]; then echo 1 >"$controller/cgroup.clone_children"; fi
        mkdir -p "$controller/$cgroup/system"
        echo 0 >"$controller/$cgroup/system/cgroup.procs"
    done
}

keep_running() {
    program=$1 log=$directory/log/$(basename "$1").log
    while :; do
        status=0
        "$program" >>"$log" 2>&1 || status=$?
        echo "=== exited with $status at $(date -u +%T), starting again" >>"$log"
        sleep 0.3
    done
}

hostname "$name"
ip link set lo up
mount -t tmpfs tmpfs /run
if [ "$role" = node ]; then prepare_node; fi
mkdir -p "$directory/log"
for program in "$directory"/run.d/*; do keep_running "$program" & done
# As the first process this one also has to reap whatever its programs leave behind.
while :; do wait || true; sleep 1; done
