"""Nextcloud's client between two directories of this machine, by way of a server that knows as much of Nextcloud's protocol as the client
asks for: Debian has no server of Nextcloud."""
import hashlib
import http.server
import os
import shutil
import threading
import urllib.parse
from email.utils import formatdate
from xml.sax.saxutils import escape

from mounts import read, run

ROOT = "/remote.php/dav/files/a"
ANSWERS = {
    "/status.php": '{"installed":true,"maintenance":false,"needsDbUpgrade":false,"version":"25.0.0.0","versionstring":"25.0.0","edition":"",'
                   '"productname":"Nextcloud","extendedSupport":false}',
    "/ocs/v1.php/cloud/capabilities": '{"ocs":{"meta":{"status":"ok","statuscode":100,"message":"OK"},"data":{"version":{"major":25,"minor":0,"micro":0,"string":"25.0.0",'
                                      '"edition":"","extendedSupport":false},"capabilities":{"core":{"pollinterval":60,"webdav-root":"remote.php/webdav"},'
                                      '"files":{"bigfilechunking":true}}}}}',
    "/ocs/v1.php/cloud/user": '{"ocs":{"meta":{"status":"ok","statuscode":100,"message":"OK"},"data":{"id":"a","display-name":"a","email":""}}}',
}
PROPERTIES = ("<d:response><d:href>{href}</d:href><d:propstat><d:prop><d:resourcetype>{kind}</d:resourcetype><d:getlastmodified>{modified}</d:getlastmodified>"
              "<d:getcontentlength>{size}</d:getcontentlength><d:getetag>&quot;{tag}&quot;</d:getetag><oc:id>{id}</oc:id><oc:fileid>{id}</oc:fileid>"
              "<oc:permissions>RGDNVCKW</oc:permissions><oc:size>{size}</oc:size></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>")


def tag_of(path):
    """Changes with everything below."""
    meta = os.stat(path)
    text = f"{meta.st_ino} {meta.st_mtime_ns} {meta.st_size}"
    if os.path.isdir(path):
        text = str(meta.st_ino) + "".join(repr(name) + tag_of(os.path.join(path, name)) for name in sorted(os.listdir(path)))
    return hashlib.sha1(text.encode()).hexdigest()[:20]


class Handler(http.server.BaseHTTPRequestHandler):
    """Files below `server.store`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing is logged."""

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def local(self, url=None):
        path = urllib.parse.unquote_to_bytes(urllib.parse.urlsplit(url or self.path).path)
        assert path.startswith(ROOT.encode()) and b".." not in path.split(b"/"), path
        return os.path.join(os.fsencode(self.server.store), path[len(ROOT):].strip(b"/"))

    def facts(self, path):
        return {"OC_FileId": f"{os.stat(path).st_ino:08d}a", "ETag": f'"{tag_of(path)}"', "OC_ETag": f'"{tag_of(path)}"'}

    def do_GET(self):
        known = ANSWERS.get(urllib.parse.urlsplit(self.path).path)
        if known:
            return self.answer(200, known.encode(), Content_Type="application/json")
        if not self.path.startswith(ROOT) or not os.path.isfile(self.local()):
            return self.answer(404)
        with open(self.local(), "rb") as file:
            self.answer(200, file.read(), Last_Modified=formatdate(os.stat(self.local()).st_mtime, usegmt=True), **self.facts(self.local()))

    def do_PROPFIND(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.startswith(ROOT) or not os.path.exists(self.local()):
            return self.answer(404)
        top, said = self.local(), []
        below = sorted(os.listdir(top)) if self.headers.get("Depth") == "1" and os.path.isdir(top) else []
        for path in [top, *(os.path.join(top, name) for name in below)]:
            meta, is_dir = os.stat(path), os.path.isdir(path)
            href = urllib.parse.quote(ROOT.encode() + path[len(self.server.store):].rstrip(b"/")) + ("/" if is_dir else "")
            said.append(PROPERTIES.format(href=escape(href), kind="<d:collection/>" if is_dir else "", modified=formatdate(meta.st_mtime, usegmt=True),
                                          size=0 if is_dir else meta.st_size, tag=tag_of(path), id=f"{meta.st_ino:08d}a"))
        body = '<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns">' + "".join(said) + "</d:multistatus>"
        return self.answer(207, body.encode(), Content_Type="application/xml; charset=utf-8")

    def do_PUT(self):
        path = self.local()
        with open(path, "wb") as file:
            file.write(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        modified = float(self.headers.get("X-OC-Mtime", 0))
        os.utime(path, (modified, modified))
        self.answer(201, X_OC_MTime="accepted", **self.facts(path))

    def do_MKCOL(self):
        if os.path.exists(self.local()):
            return self.answer(405)
        os.mkdir(self.local())
        return self.answer(201, **self.facts(self.local()))

    def do_DELETE(self):
        path = self.local()
        if not os.path.exists(path):
            return self.answer(404)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        return self.answer(204)

    def do_MOVE(self):
        target = self.local(self.headers["Destination"])
        os.rename(self.local(), target)
        self.answer(201, **self.facts(target))


class Nextcloud:
    two_way, deletes, times = True, True, True
    ignored = (b".sync_", b".owncloudsync.log")
    # It leaves out links, long names, spaces at either end and some that programs use for temporary files.
    avoided = "^link:|^dangling|up\\.$|l{255}|(日){85}|^ | $|/ |~$|^#|^Icon".encode()
    leftover, whole = rb"^\.[^/]*\.~[0-9a-f]+$", False

    def __init__(self, name, *command):
        self.name, self.command = name, command

    def prepare(self, source):
        """Called after each change of the source."""

    def copy(self, source, target, state):
        store = os.path.join(state, "store")
        os.makedirs(store, exist_ok=True)
        # The client's journal is for one address.
        known = os.path.join(state, "port")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(read(known)) if os.path.exists(known) else 0), Handler)
        with open(known, "w") as file:
            file.write(str(server.server_address[1]))
        server.store = os.fsencode(store)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url, status, said = f"http://127.0.0.1:{server.server_address[1]}", 0, b""
        try:
            # To the server, to the target and what the target has, and back to the source.
            for place in (source, target, source):
                done = run(*self.command, "--non-interactive", "-h", "-u", "a", "-p", "b", place, url, XDG_CONFIG_HOME=state, HOME=state, QT_QPA_PLATFORM="minimal")
                status, said = max(status, done.returncode), said + done.stdout
        finally:
            server.shutdown()
            server.server_close()
        return status, b"", said

    def back(self, source, target, state):
        return self.copy(source, target, state)
