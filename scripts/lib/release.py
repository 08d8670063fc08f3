"""What scripts/release checks in what it has made.

release.py sbom SOURCE PACKAGE FILE: takes the SBOM of a package that cargo-cyclonedx has written into a clone, without the clone's
path, validates it against the schema of CycloneDX, and writes it to FILE.
release.py dependencies PROGRAM FILE: reads the crates that a program says to be made of, and compares them with an SBOM.
"""

import json
import struct
import sys
import zlib
from pathlib import Path


def sbom(source: str, package: str, output: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = Path(source, package, "sbom.json").read_text().replace(f"file://{source}", "file:///namegate")
    document = json.loads(text)
    # Random; cargo-cyclonedx leaves it out only in some versions.
    document.pop("serialNumber", None)
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if error:
        sys.exit(f"the SBOM is not valid CycloneDX 1.5: {error}")
    Path(output).write_text(text)
    print(f"valid CycloneDX 1.5, {len(document['components'])} components")


def section(program: bytes, wanted: bytes) -> bytes:
    """The contents of a section of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", program, 40)
    size, count, names = struct.unpack_from("<HHH", program, 58)
    headers = [struct.unpack_from("<IIQQQQ", program, table + size * at) for at in range(count)]
    names_at = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if program[names_at + name :].split(b"\0", 1)[0] == wanted:
            return program[offset : offset + length]
    sys.exit(f"the program has no section {wanted.decode()}")


def dependencies(path: str, bom: str) -> None:
    stored = json.loads(zlib.decompress(section(Path(path).read_bytes(), b".dep-v0")))
    inside = {(one["name"], one["version"]) for one in stored["packages"] if one.get("kind", "runtime") == "runtime"}
    document = json.loads(Path(bom).read_text())
    listed = {(one["name"], one["version"]) for one in [*document["components"], document["metadata"]["component"]]}
    if ("namegate", document["metadata"]["component"]["version"]) not in inside or len(inside) < 100:
        sys.exit(f"{path} names {len(inside)} crates, and not what it is made of")
    missing = sorted(inside - listed)
    if missing:
        sys.exit(f"{path} is made of crates that the SBOM does not list: {missing}")
    print(f"{path} names the {len(inside)} crates that it is made of; all are in the SBOM ({len(listed)})")


{"sbom": sbom, "dependencies": dependencies}[sys.argv[1]](*sys.argv[2:])
