"""namegate in DuckDB.

    >>> import duckdb, namegate.duckdb
    >>> con = duckdb.connect()
    >>> namegate.duckdb.register(con, "windows")
    >>> con.sql("SELECT key FROM 'inventory.parquet' WHERE ng_check(key).verdict = 'reject'")

A column of Parquet that holds keys must be BINARY (a BLOB in DuckDB): DuckDB refuses files in which a STRING is not
UTF-8. For collisions and suggested names that are free, pass all keys to ``namegate.scan``:

    >>> findings = namegate.scan(con.sql("SELECT key FROM 'inventory.parquet'"), "windows")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb as _duckdb
import pyarrow as _pyarrow

from . import Policy, check

if TYPE_CHECKING:
    from ._namegate import Profiles

RESULT = "STRUCT(verdict VARCHAR, rules VARCHAR[], message VARCHAR, repair VARCHAR, repair_confidence VARCHAR)"


def register(
    connection: _duckdb.DuckDBPyConnection, profiles: Profiles = None, *, name: str = "ng_check"
) -> None:
    """Adds the function ``ng_check(BLOB)`` to a connection: ``namegate.check`` with these profiles.

    Args:
        connection: A connection of DuckDB.
        profiles: A policy, or the names of profiles; ``strict`` by default.
        name: The name of the function in SQL.
    """
    policy = profiles if isinstance(profiles, Policy) else Policy(profiles)

    def checked(names: _pyarrow.ChunkedArray) -> _pyarrow.Array:
        return _pyarrow.array(check(names, policy))

    connection.create_function(
        name,
        checked,
        [_duckdb.sqltype("BLOB")],
        _duckdb.sqltype(RESULT),
        type="arrow",
        null_handling="special",
    )
