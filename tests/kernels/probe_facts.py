"""probe_facts.py NAME: reads what `namegate probe --json` says of a file system, prints it in a line, and fails if it is not as is known.

What is known comes from the sources of the kernel and of the file systems, not from namegate.
"""
import json
import sys

name = sys.argv[1]
said = json.load(sys.stdin)
results = {}
for tried in said["names"]:
    results.setdefault(tried["result"], set()).add(tried["name"]["shown"])
stored = {tried["name"]["shown"].strip("0123456789").removesuffix("x"): tried["result"] for tried in said["names"]}
longest = {entry["character"]: entry["count"] for entry in said["longest"]}
equal = said["equal_names"]

BYTES = {"a": 255, "é": 127, "漢": 85, "\U0001F600": 63}
UTF16 = {"a": 255, "é": 255, "漢": 255, "\U0001F600": 127}
WINDOWS = '"*:<>?|'
# NAME: the longest names, how case and normalization are treated, characters that are refused, names that arrive as others.
KNOWN = {
    "tmpfs": (BYTES, None, None, "", {}),
    "ext4": (BYTES, None, None, "", {}),
    "xfs": (BYTES, None, None, "", {}),
    "btrfs": (BYTES, None, None, "", {}),
    "f2fs": (BYTES, None, None, "", {}),
    "nfs": (BYTES, None, None, "", {}),
    "gocryptfs": (BYTES, None, None, "", {}),
    "ext4-casefold": (BYTES, "full", "nfd", "", {}),
    "ecryptfs": ({"a": 143, "é": 71, "漢": 47, "\U0001F600": 35}, None, None, "", {}),
    "vfat": (UTF16, "any", None, WINDOWS, {"x.": "x"}),
    "exfat": (UTF16, "any", None, WINDOWS, {"x.": "x"}),
    "exfat-fuse": (UTF16, "any", None, "", {}),
    "ntfs-3g": (UTF16, None, None, "", {}),
    "ntfs3": (UTF16, "any", None, "", {}),
    "ntfs": (None, None, None, "", {}),
    "cifs": (BYTES, "any", None, "", {}),
    "namegate": (BYTES, None, None, WINDOWS + "\\", {}),
}
lengths, case, form, refused, changed = KNOWN[name]
wrong = []
if said["not_tried"] or said["left_behind"]:
    wrong.append(f"not tried: {said['not_tried']}, left behind: {said['left_behind']}")
if lengths and longest != lengths:
    wrong.append(f"longest names {longest}")
if case not in ("any", equal["case"]) or case == "any" and equal["case"] is None and name != "ntfs3":
    wrong.append(f"case {equal['case']}")
if equal["form"] != form:
    wrong.append(f"form {equal['form']}")
for character in refused:
    if stored.get(character) != "refused" and stored.get("\\" + character) != "refused":
        wrong.append(f"{character} is {stored.get(character)}")
arrived = {tried["name"]["shown"]: (tried["arrived"] or {}).get("shown") for tried in said["names"]}
for given, other in changed.items():
    if arrived[given] != other:
        wrong.append(f"{given} arrived as {arrived[given]}")
changes = {given: other for given, other in arrived.items() if other}
compared = equal["case"] or "exact"
print(f"{said['profile']}; case {compared}, form {equal['form']}; {len(results.get('refused', ()))} refused; changed {changes}; "
      f"longest {list(longest.values())}; inexact {ascii(said['inexact'])}")
if wrong:
    sys.exit("; ".join(wrong))
