"""namegate in DuckDB.

    >>> import duckdb, namegate.duckdb
    >>> con = duckdb.connect()
    >>> namegate.duckdb.register(con, "windows")
    >>> con.sql("SELECT key FROM 'inventory.parquet' WHERE ng_check_key(key).verdict = 'reject'")
    >>> con.sql("SELECT path FROM 'files.csv' WHERE ng_check_path(encode(path)).verdict = 'reject'")
    >>> con.sql("SELECT name FROM 'files.parquet' WHERE ng_check(name).verdict = 'reject'")

The functions take a BLOB; ``encode`` makes one of a VARCHAR. A column of Parquet that holds keys must be BINARY (a BLOB in
DuckDB): DuckDB refuses files in which a STRING is not UTF-8. For collisions and suggested names that are free, pass all keys to ``namegate.scan``:

    >>> findings = namegate.scan(con.sql("SELECT key FROM 'inventory.parquet'"), "windows")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb as _duckdb
import pyarrow as _pyarrow

from . import Policy, check

if TYPE_CHECKING:
    from ._namegate import Profiles, Shape

RESULT = "STRUCT(verdict VARCHAR, rules VARCHAR[], message VARCHAR, repair VARCHAR, repair_confidence VARCHAR)"


def register(
    connection: _duckdb.DuckDBPyConnection, profiles: Profiles = None, *, name: str = "ng_check"
) -> None:
    """Adds three functions of a BLOB to a connection: ``namegate.check`` with these profiles.

    ``ng_check`` checks names, in which ``/`` is an error; ``ng_check_key`` the keys of objects, and ``ng_check_path`` the paths of
    files, of which each name is checked.

    Args:
        connection: A connection of DuckDB.
        profiles: A policy, or the names of profiles; ``strict`` by default.
        name: The name of the first function in SQL; the others are called after it.
    """
    policy = profiles if isinstance(profiles, Policy) else Policy(profiles)

    def add(function: str, shape: Shape) -> None:
        def checked(items: _pyarrow.ChunkedArray) -> _pyarrow.Array:
            return _pyarrow.array(check(items, policy, shape=shape))

        connection.create_function(
            function,
            checked,
            [_duckdb.sqltype("BLOB")],
            _duckdb.sqltype(RESULT),
            type="arrow",
            null_handling="special",
        )

    add(name, "names")
    add(f"{name}_key", "keys")
    add(f"{name}_path", "paths")
