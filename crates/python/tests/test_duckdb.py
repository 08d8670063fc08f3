"""In DuckDB."""

import namegate
import pyarrow as pa
import pytest

duckdb = pytest.importorskip("duckdb", reason="SKIPPED: duckdb is not installed")
import namegate.duckdb  # noqa: E402
from test_namegate import KEYS, PROFILES, rows  # noqa: E402


def test_sql_checks_names():
    con = duckdb.connect()
    namegate.duckdb.register(con, "windows")
    names = pa.table({"name": pa.array([b"report.txt", b"aux.txt", b"caf\xe9", None])})  # noqa: F841
    found = con.sql("SELECT name, ng_check(name).verdict AS verdict, ng_check(name).rules FROM names").fetchall()
    assert [row[1:] for row in found] == [
        ("accept", []),
        ("reject", ["reserved-name"]),
        ("reject", ["truncated"]),
        (None, None),
    ]


def test_many_rows_are_checked_as_by_the_package():
    con = duckdb.connect()
    namegate.duckdb.register(con, PROFILES, name="bad")
    inventory = pa.table({"key": pa.array(KEYS)})  # noqa: F841
    counts = dict(con.sql("SELECT bad(key).verdict, count(*) FROM inventory GROUP BY 1").fetchall())
    checked = pa.array(namegate.check(pa.array(KEYS), PROFILES)).field("verdict").to_pylist()
    assert counts == {verdict: checked.count(verdict) for verdict in set(checked)}


def test_a_query_can_be_scanned():
    con = duckdb.connect()
    inventory = pa.table({"key": pa.array(KEYS)})  # noqa: F841
    assert rows(namegate.scan(con.sql("SELECT key FROM inventory"), PROFILES)) == rows(
        namegate.scan(pa.array(KEYS), PROFILES)
    )
