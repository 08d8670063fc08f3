"""Syncthing between two directories of this machine: two devices that know each other's address and nobody else."""
import json
import os
import re
import socket
import subprocess
import time
import urllib.request

from mounts import ENVIRONMENT, must, run, wait_until

KEY = "namegate"
CONFIGURATION = """<configuration version="36">
<folder id="f" path="{path}" type="sendreceive" rescanIntervalS="0" fsWatcherEnabled="false" ignorePerms="false">
<device id="{ids[0]}"/><device id="{ids[1]}"/><caseSensitiveFS>true</caseSensitiveFS><minDiskFree unit="%">0</minDiskFree></folder>
<device id="{ids[0]}" name="a"><address>tcp://127.0.0.1:{ports[0]}</address></device>
<device id="{ids[1]}" name="b"><address>tcp://127.0.0.1:{ports[1]}</address></device>
<gui enabled="true"><address>127.0.0.1:{gui}</address><apikey>{key}</apikey></gui>
<options><listenAddress>tcp://127.0.0.1:{port}</listenAddress><globalAnnounceEnabled>false</globalAnnounceEnabled>
<localAnnounceEnabled>false</localAnnounceEnabled><relaysEnabled>false</relaysEnabled><natEnabled>false</natEnabled><urAccepted>-1</urAccepted>
<reconnectionIntervalS>1</reconnectionIntervalS><autoUpgradeIntervalH>0</autoUpgradeIntervalH><crashReportingEnabled>false</crashReportingEnabled>
<startBrowser>false</startBrowser></options></configuration>"""


def free_ports(count):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports


class Device:
    """A running Syncthing."""

    def __init__(self, home, gui):
        self.gui = gui
        self.log = open(os.path.join(home, "log"), "ab")
        self.process = subprocess.Popen(["syncthing", "serve", "--home", home, "--no-browser", "--no-restart", "--logflags=0"],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=ENVIRONMENT)

    def ask(self, what, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.gui}/rest/{what}", method=method, headers={"X-API-Key": KEY})
        with urllib.request.urlopen(request, timeout=60) as reply:
            said = reply.read()
        return json.loads(said) if said.startswith(b"{") else {}

    def answers(self):
        try:
            return bool(self.ask("system/status"))
        except OSError:
            if self.process.poll() is not None:
                raise RuntimeError("Syncthing ended") from None
            return False

    def is_connected(self):
        return any(each["connected"] for each in self.ask("system/connections")["connections"].values())

    def folder(self):
        return self.ask("db/status?folder=f")

    def lacks(self, other):
        """How many changes the other device does not have yet, as far as this one knows."""
        left = self.ask(f"db/completion?folder=f&device={other}")
        return left["needItems"] + left["needDeletes"]

    def end(self):
        try:
            self.ask("system/shutdown", "POST")
            self.process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.log.close()


class Syncthing:
    name = "Syncthing"
    two_way, deletes, times, ignored, avoided = True, True, True, (b".stfolder",), "\u0301".encode()
    leftover, whole = rb"^\.syncthing\..*\.tmp$", False

    def __init__(self, name, *command):
        self.name, self.command = name, command

    def prepare(self, source):
        """Called after each change of the source."""

    def set_up(self, folders, homes):
        ids = []
        for home in homes:
            must("syncthing", "generate", "--home", home, "--no-default-folder")
            ids.append(run("syncthing", "--home", home, "--device-id").stdout.decode().strip().splitlines()[-1])
        *ports, gui, other = free_ports(4)
        for home, folder, port, own in zip(homes, folders, ports, (gui, other)):
            os.makedirs(os.path.join(folder, ".stfolder"), exist_ok=True)
            with open(os.path.join(home, "config.xml"), "w") as file:
                file.write(CONFIGURATION.format(path=folder, ids=ids, ports=ports, port=port, gui=own, key=KEY))

    def copy(self, source, target, state):
        homes = [os.path.join(state, side) for side in "ab"]
        if not os.path.exists(homes[0]):
            self.set_up([source, target], homes)
        texts = [open(os.path.join(home, "config.xml")).read() for home in homes]
        ids = [re.search(r'device id="([^"]+)"[^>]* name="%s"' % side, texts[0]).group(1) for side in "ab"]
        self.failed = None, 0
        devices = [Device(home, re.search(r"<address>127.0.0.1:(\d+)</address>", text).group(1)) for home, text in zip(homes, texts)]
        try:
            for device in devices:
                wait_until("answer of Syncthing", device.answers)
            wait_until("connection", lambda: all(device.is_connected() for device in devices), 60)
            for device in devices:
                device.ask("db/scan?folder=f", "POST")
            wait_until("agreement", lambda: self.is_settled(devices, ids), 60)
            failed = [error for device in devices for error in device.ask("folder/errors?folder=f")["errors"] or []]
        except (TimeoutError, RuntimeError, OSError) as error:
            return 2, b"", str(error).encode() + b"".join(open(os.path.join(home, "log"), "rb").read()[-600:] for home in homes)
        finally:
            for device in devices:
                device.end()
        return int(bool(failed)), b"", json.dumps(failed).encode()

    def back(self, source, target, state):
        return self.copy(source, target, state)

    def is_settled(self, devices, ids):
        folders = [device.folder() for device in devices]
        if any(folder["state"] not in ("idle", "error") for folder in folders):
            return False
        if any(folder["pullErrors"] for folder in folders):
            # It tries again after a minute. Until then it has pulled what it can, once the numbers stay.
            numbers = [(folder["localFiles"], folder["pullErrors"], folder["globalFiles"]) for folder in folders]
            if self.failed[0] != numbers:
                self.failed = numbers, time.monotonic()
            return time.monotonic() - self.failed[1] > 3
        # A device that has not got the index of the other one yet lacks nothing that it knows of.
        known = [[folder[f"{scope}{what}"] for what in ("Files", "Directories", "Symlinks", "Bytes")] for folder in folders for scope in ("global", "local")]
        return known.count(known[0]) == len(known) and not devices[0].lacks(ids[1]) and not devices[1].lacks(ids[0])
