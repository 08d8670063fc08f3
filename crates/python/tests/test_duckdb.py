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


def test_many_keys_are_checked_as_by_the_package():
    con = duckdb.connect()
    namegate.duckdb.register(con, PROFILES, name="bad")
    inventory = pa.table({"key": pa.array(KEYS)})  # noqa: F841
    for function, shape in [("bad_key", "keys"), ("bad_path", "paths")]:
        counts = dict(con.sql(f"SELECT {function}(key).verdict, count(*) FROM inventory GROUP BY 1").fetchall())
        checked = pa.array(namegate.check(pa.array(KEYS), PROFILES, shape=shape)).field("verdict").to_pylist()
        assert counts == {verdict: checked.count(verdict) for verdict in set(checked)}
        assert counts["accept"] > 7000


def test_names_with_a_slash_lead_to_the_functions_of_keys_and_paths():
    con = duckdb.connect()
    namegate.duckdb.register(con, "windows")
    with pytest.warns(UserWarning, match="ng_check_key and ng_check_path"):
        found = con.sql("SELECT ng_check('a/b'::BLOB).rules, ng_check_key('a/b'::BLOB).rules, ng_check_path('/a'::BLOB).rules")
        assert found.fetchall() == [(["separator-smuggling"], [], [])]


def test_a_query_can_be_scanned():
    con = duckdb.connect()
    inventory = pa.table({"key": pa.array(KEYS)})  # noqa: F841
    assert rows(namegate.scan(con.sql("SELECT key FROM inventory"), PROFILES)) == rows(
        namegate.scan(pa.array(KEYS), PROFILES)
    )
