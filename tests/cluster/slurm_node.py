"""A Slurm cluster of one node on this machine, started by hand; needs root and slurm-wlm."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
CONFIGURATION = """\
ClusterName=repro
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldPort={first_port}
SlurmdPort={second_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Return the reason why no cluster is started here; empty if one can be."""
    if not os.environ.get("REPRO_TEST_CLUSTER"):
        return "takes a quarter of an hour: `make test-cluster`, or REPRO_TEST_CLUSTER=1"
    os.environ["PATH"] += os.pathsep + "/usr/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {', '.join(missing)} here (apt-get install slurm-wlm)"
    return "" if os.geteuid() == 0 else "slurmctld and slurmd need root here"


@contextmanager
def slurm_node(folder: Path) -> Iterator[None]:
    """Run a controller and a node while the block runs; ``SLURM_CONF`` names them.

    Every process of the cluster and of the block ends with the block, also if this process is
    killed: a guard, which waits for the end of a pipe, ends whatever has our ``SLURM_CONF``.
    """
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    first, second = _free_port(), _free_port()
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=host, folder=folder, first_port=first, second_port=second, cpus=os.cpu_count()
        )
    )
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
    places = [f"--{name}={folder}/munge.{name}" for name in ("pid-file", "socket", "log", "seed")]
    command = [sys.executable, __file__, str(configuration)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(configuration)
    try:
        _run("munged", "--force", f"--key-file={key}", *places)
        _run("slurmctld", "-f", str(configuration))
        _run("slurmd", "-f", str(configuration))
        deadline = time.monotonic() + 60
        while "idle" not in _run("sinfo", "-h", "-o", "%T"):
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()
            time.sleep(0.5)
        yield
    finally:
        guard.communicate()
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


def end_processes(configuration: str) -> None:
    """End the processes started with a ``SLURM_CONF``: politely, and after ten seconds at once."""
    ours = f"SLURM_CONF={configuration}".encode()
    deadline = time.monotonic() + 10
    while found := [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, ours)
    ]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        time.sleep(1)


def _has(pid: int, variable: bytes) -> bool:
    with suppress(OSError):
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.stdin.read()
    end_processes(sys.argv[1])
