"""A Kubernetes cluster of one node, of its own programs, in namespaces that end with it.

Network, mounts, processes and the directories that programs write are the node's own, so nothing
of the machine is changed but its cgroups, below one that is removed. The node's network is the far
end of a cable: `eth0`, whose near end is another machine.
"""

import json
import os
import secrets
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.containers import wait_until
from tools.namespaces import Cable, run

PROGRAMS: Final = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl",
    "containerd", "containerd-shim-runc-v2", "ctr", "coredns",
)  # fmt: skip
ROOT: Final = Path(__file__).parents[2]
NAME: Final = "node"
UPLINK: Final = "eth0"
PODS: Final = "10.244.0.0/24"
SERVICES: Final = "10.97.0.0/24"
API: Final = "10.97.0.1"  # of its service, which is the first one; there is no proxy of services
DOMAIN: Final = "cluster.local"
PAUSE: Final = "localhost/pause:1"
CONTAINERD: Final = "/run/containerd/containerd.sock"
LONGEST_S: Final = 3600  # it ends by itself
PATIENCE_S: Final = 120.0  # as two cores start a cluster
# What programs write at fixed places is in the node's directory.
OWN_DIRECTORIES: Final = ("/var/lib", "/var/log", "/run")
CGROUPS: Final = Path("/sys/fs/cgroup")
# Process 1 of the node: it adopts orphans, and ends after a time limit.
FIRST: Final = """
mount --make-rshared /
for directory in {directories}; do mount --bind "{root}$directory" "$directory"; done
touch "{root}/ready"
end=$(($(date +%s) + {longest}))
while [ "$(date +%s)" -lt "$end" ]; do sleep 1; done
"""


class Node(NamedTuple):
    """A node that runs: its programs, the directory with all it has, and its process 1."""

    programs: Path
    directory: Path
    cable: Cable
    first: int

    @property
    def address(self) -> str:
        return self.cable.far.address

    @property
    def enter(self) -> list[str]:
        """Command prefix to run on the node."""
        path = f"PATH={self.programs}:/usr/sbin:/usr/bin:/sbin:/bin"
        nsenter = ["nsenter", "--target", str(self.first), "--net", "--mount", "--pid", "--uts"]
        return [*nsenter, "env", f"--chdir={ROOT}", path]

    def kubectl(
        self, *words: str, given: str = "", fails: bool = False, in_terminal: bool = False
    ) -> str:
        """What a command prints; RuntimeError if it fails, or does not though it should."""
        command = [*self._kubectl, *words]
        if in_terminal:
            script = ["script", "--quiet", "--return", "--command"]
            command = [*script, shlex.join(command), "/dev/null"]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, input=given,
            check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        if (done.returncode != 0) != fails:
            raise RuntimeError(f"kubectl {' '.join(words)}\n{done.stdout}{done.returncode}")
        return done.stdout

    @contextmanager
    def following(self, *words: str) -> Iterator[Path]:
        """A file to which a command of kubectl writes; it has ended at the end."""
        path = self.directory / "followed.log"
        with path.open("wb") as log:
            command = [*self._kubectl, *words]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: path.stat().st_size or process.poll() is not None, "a first line")
            yield path
        finally:
            process.wait(PATIENCE_S)

    @property
    def _kubectl(self) -> list[str]:
        return [*self.enter, "kubectl", f"--kubeconfig={self.directory}/kubeconfig"]

    def objects(self, *words: str) -> dict[str, Any]:
        """What `kubectl get` gives."""
        return dict(json.loads(self.kubectl("get", *words, "-o", "json")))

    def on_disk(self, path: str) -> Path:
        """Where a file of the node is on this machine, below one of its own directories."""
        return self.directory / "own" / path.lstrip("/")


@contextmanager
def started(programs: Path, images: Path, cable: Cable, directory: Path) -> Iterator[Node]:
    """A node that is ready and has these images, an archive."""
    network(cable)
    with groups(directory.name) as group, first_process(cable, directory) as first:
        node = Node(programs, directory, cable, first)
        with ExitStack() as services:
            for name, command in commands(node, group).items():
                services.enter_context(service(node, name, command))
                await_(node, name)
            ctr = ["ctr", f"--address={CONTAINERD}", "--namespace=k8s.io"]
            run([*node.enter, *ctr, "images", "import", str(images)], 2 * PATIENCE_S)
            wait_until(lambda: is_ready(node), "the node is ready", PATIENCE_S)
            yield node


@contextmanager
def service(node: Node, name: str, command: list[str]) -> Iterator[None]:
    """A program that runs until the end, and writes a log."""
    with (node.directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*node.enter, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@contextmanager
def groups(name: str) -> Iterator[str]:
    """A cgroup of this name for all controllers, with no process of it left at the end."""
    is_unified = (CGROUPS / "cgroup.controllers").exists()  # version 2, which is untested
    hierarchies = [CGROUPS] if is_unified else list(CGROUPS.iterdir())
    try:
        for one in hierarchies:
            (one / name).mkdir()
        yield name
    finally:
        for one in hierarchies:
            remove_groups(one / name)


def network(cable: Cable) -> None:
    """Name the node's end, and set the routes between machine, node and pods."""
    near, far = cable
    far.ip(f"link set {far.interface} down")
    far.ip(f"link set {far.interface} name {UPLINK}")
    far.ip(f"link set {UPLINK} up")
    far.ip(f"route add default via {near.address}")
    far.ip(f"address add {API}/32 dev lo")
    near.ip(f"route add {PODS} via {far.address}")
    run([*far.enter, "sysctl", "-qw", "net.ipv4.ip_forward=1"])


@contextmanager
def first_process(cable: Cable, directory: Path) -> Iterator[int]:
    """Process 1 of the node; when it ends, all the node's processes do."""
    root = directory / "own"
    for one in OWN_DIRECTORIES:
        (root / one.lstrip("/")).mkdir(parents=True)
    script = FIRST.format(directories=" ".join(OWN_DIRECTORIES), root=root, longest=LONGEST_S)
    unshare = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]
    # Not by `ip netns exec`, whose /sys has no cgroups.
    network = ["nsenter", f"--net=/run/netns/{cable.far.namespace}"]
    with (directory / "first.log").open("wb") as log:
        process = subprocess.Popen([*network, *unshare, "sh", "-ec", script], stderr=log)
    try:
        wait_until((root / "ready").exists, "process 1 of the node")
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        try:
            yield int(child)
        finally:
            os.kill(int(child), signal.SIGKILL)
            process.wait()  # for the child, which ends when all others of the node have
    finally:
        process.kill()  # and its child with it
        process.wait()


def commands(node: Node, group: str) -> dict[str, list[str]]:
    """Each program's command, with its files written."""
    place = node.directory
    token = secrets.token_hex(16)
    (place / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    run(["openssl", "genrsa", "-out", str(place / "accounts.key"), "2048"])
    server = f"https://{node.address}"
    cluster = {"server": server, "insecure-skip-tls-verify": True}
    (place / "kubeconfig").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "admin"}}],
    }))  # fmt: skip
    (place / "Corefile").write_text(
        f"{DOMAIN} {{\n bind {node.address}\n"
        f" kubernetes {DOMAIN} {{\n  kubeconfig {place}/kubeconfig\n }}\n}}\n"
    )
    (place / "kubelet.json").write_text(json.dumps(kubelet(node, group)))
    (place / "containerd.toml").write_text(containerd(place))
    networks = place / "networks"
    networks.mkdir()
    (networks / "1.conflist").write_text(json.dumps(pod_network()))
    config = f"--kubeconfig={place}/kubeconfig"
    return {
        "etcd": ["etcd", f"--data-dir={place}/etcd", "--unsafe-no-fsync"],
        "kube-apiserver": [
            "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--secure-port=443",
            f"--advertise-address={node.address}", f"--service-cluster-ip-range={SERVICES}",
            f"--cert-dir={place}/certificates", f"--token-auth-file={place}/tokens.csv",
            "--authorization-mode=RBAC", f"--service-account-issuer={server}",
            f"--service-account-key-file={place}/accounts.key",
            f"--service-account-signing-key-file={place}/accounts.key",
            "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true",
        ],
        "kube-controller-manager": [
            "kube-controller-manager", config, "--leader-elect=false",
            f"--service-account-private-key-file={place}/accounts.key",
            f"--root-ca-file={place}/certificates/apiserver.crt",
        ],
        "kube-scheduler": ["kube-scheduler", config, "--leader-elect=false"],
        "coredns": ["coredns", f"-conf={place}/Corefile"],
        "containerd": ["containerd", f"--config={place}/containerd.toml"],
        "kubelet": [
            "kubelet", config, f"--config={place}/kubelet.json", f"--root-dir={place}/kubelet",
            f"--hostname-override={NAME}", f"--node-ip={node.address}",
        ],
    }  # fmt: skip


def kubelet(node: Node, group: str) -> dict[str, Any]:
    """Its configuration: no certificates, as only this node's network reaches it."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "clusterDNS": [node.address],
        "clusterDomain": DOMAIN,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "enforceNodeAllocatable": [],
        "evictionHard": {"nodefs.available": "1%", "memory.available": "100Mi"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": f"{node.directory}/pods",
        "volumePluginDir": f"{node.directory}/plugins",
    }


def containerd(place: Path) -> str:
    """Its configuration."""
    plugin = 'plugins."io.containerd.cri.v1'
    return f"""
version = 3
root = "{place}/containerd"
state = "/run/containerd/state"
[grpc]
address = "{CONTAINERD}"
[{plugin}.images".pinned_images]
sandbox = "{PAUSE}"
[{plugin}.runtime"]
restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE it cannot be lowered
[{plugin}.runtime".cni]
bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
conf_dir = "{place}/networks"
[{plugin}.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{plugin}.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def pod_network() -> dict[str, Any]:
    """Each pod has an address, at a bridge of the node."""
    ways = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipam": ways}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def await_(node: Node, name: str) -> None:
    """Wait until a program serves, where others need it."""
    if name == "kube-apiserver":
        wait_until(lambda: succeeds(node, "get", "--raw=/readyz"), name, PATIENCE_S)
        wait_until(lambda: succeeds(node, "get", "namespace", "default"), "the namespace")
    if name == "containerd":
        wait_until(node.on_disk(CONTAINERD).exists, name)


def succeeds(node: Node, *words: str) -> bool:
    try:
        node.kubectl(*words)
    except RuntimeError:
        return False
    return True


def is_ready(node: Node) -> bool:
    """Return whether the node may have pods."""
    if not succeeds(node, "get", "node", NAME):
        return False
    conditions = node.objects("node", NAME)["status"]["conditions"]
    return {"Ready": "True"}.items() <= {one["type"]: one["status"] for one in conditions}.items()


def remove_groups(group: Path) -> None:
    """Remove a cgroup without processes, and those below it."""
    if group.is_dir():
        for one in group.iterdir():
            if one.is_dir():
                remove_groups(one)
        group.rmdir()
