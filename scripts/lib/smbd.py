"""A Samba server on 127.0.0.1 with a directory of its own, without systemd. Run in a network namespace of its own, where port 445 is free."""
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

from mounts import ENVIRONMENT, run, wait_until

CONFIGURATION = """[global]
server role = standalone server
smb ports = 445
interfaces = lo
bind interfaces only = yes
private dir = {own}
lock directory = {own}
state directory = {own}
cache directory = {own}
pid directory = {own}
ncalrpc dir = {own}/ncalrpc
log file = {own}/log
passdb backend = tdbsam:{own}/passdb.tdb
map to guest = Bad User
guest account = root
disable netbios = yes
load printers = no
printing = bsd
disable spoolss = yes
mangled names = no
server min protocol = SMB2
"""
CLONE_NEWNET, SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8913, 0x8914, 1


def enter_network_namespace():
    """This process and its children see a network of their own, which has the loopback interface only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack("16sh22x", asked)[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


class Samba:
    """A running smbd, with shares: name → (path, options)."""

    def __init__(self, shares):
        self.own = tempfile.mkdtemp(prefix="namegate-smbd.")
        text = CONFIGURATION.format(own=self.own)
        for name, (path, options) in shares.items():
            text += f"[{name}]\npath = {path}\nread only = no\nguest ok = yes\n" + "".join(f"{key} = {value}\n" for key, value in options.items())
        self.conf = os.path.join(self.own, "conf")
        with open(self.conf, "w") as file:
            file.write(text)
        self.process = subprocess.Popen(["smbd", "--foreground", "--no-process-group", f"--configfile={self.conf}", "--debug-stdout", "-d0"],
                                        stdin=subprocess.DEVNULL, stdout=open(os.path.join(self.own, "out"), "wb"), stderr=subprocess.STDOUT,
                                        # smbd sends SIGTERM to its group when it ends.
                                        start_new_session=True, env=ENVIRONMENT)
        wait_until("smbd", self.answers)

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"smbd ended: {open(os.path.join(self.own, 'out')).read()}")
        try:
            socket.create_connection(("127.0.0.1", 445)).close()
            return True
        except OSError:
            return False

    def client(self, share, commands):
        """What smbclient says."""
        done = run("smbclient", "-N", f"--configfile={self.conf}", f"//127.0.0.1/{share}", "-c", commands, cwd=self.own)
        return done.stdout.decode(errors="backslashreplace")

    def file(self, name):
        return os.path.join(self.own, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.own, ignore_errors=True)
