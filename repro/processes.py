"""Identity of processes across machines: whose files are these, and does their writer still run?"""

import os
import socket
import uuid
from functools import cache
from hashlib import blake2s
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


@cache
def system_identity() -> str:
    """Return an identifier of the system within which a process ID is unique.

    On Linux that is one boot of a machine and one PID namespace: containers may share a host name,
    and machines copied from one image may too. Elsewhere it is host name and network address.
    """
    try:
        identity = f"{_BOOT.read_text().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        identity = f"{socket.gethostname()} {uuid.getnode()}"
    return blake2s(identity.encode(), digest_size=4).hexdigest()


def process_start(pid: int) -> int | None:
    """Return when a process of this system started, in clock ticks since boot.

    Returns:
        0 if the system does not tell; None if no such process runs (a zombie does not run).
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it runs, as another user
        pass
    try:
        # The name in parentheses may contain spaces; state and start are fields 3 and 22.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # no such file system, or processes of others are hidden
        return 0
    return None if fields[0] in ("Z", "X") else int(fields[19])
