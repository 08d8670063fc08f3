"""Checks file names and object keys in Arrow data.

Findings are those of ``namegate scan --list``. Every function takes any object that exports Arrow data by PyCapsules
(pyarrow, Polars, DuckDB, nanoarrow and others) and returns such an object, so that no particular library is needed:

    >>> import namegate, pyarrow as pa
    >>> names = pa.array([b"report.txt", b"aux.txt", b"caf\\xe9"])
    >>> pa.array(namegate.check(names, "windows")).field("verdict").to_pylist()
    ['accept', 'reject', 'reject']

``check`` looks at names one by one, and with ``shape="keys"`` or ``shape="paths"`` at each name of a key or path:

    >>> keys = pa.array([b"2026/report.txt", b"2026/aux/a.txt"])
    >>> pa.array(namegate.check(keys, "windows", shape="keys")).field("repair").to_pylist()
    [None, '2026/aux_/a.txt']

Names can collide only within a directory, and a suggested name must be free in its
directory: ``scan`` checks whole directories, and finds those as well. An engine that distributes its work runs the two
halves of ``scan`` itself: ``pairs``, then a shuffle by ``parent``, then ``check_directories``. ``namegate.spark`` does
so in Spark, ``namegate.duckdb`` and ``namegate.polars`` add ``check`` to these engines.

A directory that is too large for one task can be cut. Its pairs go through ``number_names``, a shuffle by ``number``,
``find_candidates``, and a shuffle by ``parent``; then ``wanted_numbers`` says of which numbers all names must be added, until there
are none, and ``check_candidates`` has the findings of the whole directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ._namegate import (
    Batches,
    CheckedNames,
    Findings,
    Pairs,
    Policy,
    Summary,
    __version__,
    check,
    check_candidates,
    check_directories,
    find_candidates,
    number_names,
    pairs,
    wanted_numbers,
)

if TYPE_CHECKING:
    from ._namegate import Column, Decoding, Profiles, Shape

__all__ = [
    "Batches",
    "CheckedNames",
    "Findings",
    "Pairs",
    "Policy",
    "Summary",
    "__version__",
    "check",
    "check_candidates",
    "check_directories",
    "find_candidates",
    "number_names",
    "pairs",
    "scan",
    "wanted_numbers",
]


def scan(
    keys: Column,
    profiles: Profiles = None,
    *,
    shape: Shape = "keys",
    decode: Decoding = "none",
    prefix: bytes | None = None,
    encoding: str | None = None,
    min_severity: Literal["warn", "error"] = "warn",
    memory: int | None = None,
) -> Findings:
    """Checks a column of keys in this process: each name, and the names of each directory against each other.

    The parameters are those of ``pairs`` and ``check_directories``.
    """
    return check_directories(
        pairs(keys, shape=shape, decode=decode),
        profiles,
        prefix=prefix,
        encoding=encoding,
        min_severity=min_severity,
        memory=memory,
    )


def _policy(profiles: list[str] | None, config: str | None) -> Policy:
    """Makes a policy of what it was made of, for pickle."""
    return Policy(profiles, config=config)
