"""Run a command beside a throw-away PostgreSQL server, whose URL it finds in HIPPO_TEST_POSTGRES.

    python tests/postgres_server.py python -m pytest tests/core

The server listens on a unix socket and on loopback. It is stopped and removed at the end, also when
the command fails. As root it runs as an unprivileged user, and the package is installed if absent.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HOW_TO_INSTALL = "no PostgreSQL server found; install one, such as: apt-get install postgresql"
SETTINGS = {"fsync": "off", "max_connections": "300", "log_min_messages": "fatal"}


def binaries():
    """Give the folder of initdb and pg_ctl; None where there is none."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name)
    )
    on_path = shutil.which("initdb")
    folders = [*reversed(debian), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((f for f in folders if (f / "initdb").exists() and (f / "pg_ctl").exists()), None)


def installed():
    """Give the server's binaries; install them where this is possible."""
    if (found := binaries()) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(HOW_TO_INSTALL)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qq", "--no-install-recommends", "postgresql"]
    if subprocess.run(install, env=env, check=False).returncode != 0:
        subprocess.run(["apt-get", "update", "-qq"], env=env, check=True)
        subprocess.run(install, env=env, check=True)
    return binaries() or sys.exit(HOW_TO_INSTALL)


def server_user():
    """Give the user of the server: initdb refuses root."""
    if os.geteuid() != 0:
        return None
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    sys.exit("there is neither a user postgres nor nobody to run the server")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server():
    """Give the URL of a running server."""
    tools, user = installed(), server_user()
    as_user = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
    if user is not None:
        as_user["extra_groups"] = []
    # Short: the path of a socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="hippo-pg-", dir="/tmp"))  # noqa: S108
    if user is not None:
        os.chown(home, user.pw_uid, user.pw_gid)
    port = free_port()
    options = {
        **SETTINGS,
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": home,
    }

    def run(tool, *arguments, check=True):
        command = [str(tools / tool), *map(str, arguments)]
        done = subprocess.run(
            command, **as_user, cwd=home, check=False, text=True, timeout=120,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        if check and done.returncode != 0:
            sys.exit(f"{tool} failed: {done.stderr}")

    data = home / "data"
    try:
        run("initdb", "-D", data, "-U", "hippo", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        flags = " ".join(f"-c {name}={value}" for name, value in options.items())
        run("pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", flags, "start")
        yield f"postgresql://hippo@/postgres?host={home}&port={port}"
    finally:
        if (data / "postmaster.pid").exists():
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop", check=False)
        shutil.rmtree(home, ignore_errors=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is removed
    if not sys.argv[1:]:
        sys.exit(__doc__)
    with server() as url:
        env = {**os.environ, "HIPPO_TEST_POSTGRES": url}
        code = subprocess.run(sys.argv[1:], env=env, check=False).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()
