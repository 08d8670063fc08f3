"""Opens files of a share by a client of Samba, and prints nanoseconds for each: smb_opens.py HOST SHARE DIRECTORY <NAMES. Names are separated by
line feeds; one that does not exist counts, too. Needs Debian's python3-samba, so Debian's Python."""
import sys
import time

from samba import NTSTATUSError
from samba.credentials import Credentials
from samba.param import LoadParm
from samba.samba3 import libsmb_samba_internal as libsmb
from samba.samba3 import param as s3param

configuration, share, directory = sys.argv[1:]
s3param.get_context().load(configuration)
lp = LoadParm()
lp.load(configuration)
credentials = Credentials()
credentials.guess(lp)
credentials.set_anonymous()
connection = libsmb.Conn("127.0.0.1", share, s3param.get_context(), credentials)
READ, OPEN = 0x00120089, 1
for name in sys.stdin.read().splitlines():
    path = directory + "\\" + name
    begun = time.perf_counter_ns()
    try:
        handle = connection.create(path, DesiredAccess=READ, ShareAccess=7, CreateDisposition=OPEN)
    except NTSTATUSError:
        print(time.perf_counter_ns() - begun, "absent")
        continue
    connection.close(handle)
    print(time.perf_counter_ns() - begun, "opened")
