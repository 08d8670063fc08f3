"""In Polars."""

import namegate
import pytest

pl = pytest.importorskip("polars", reason="SKIPPED: polars is not installed")
import namegate.polars  # noqa: E402
import pyarrow as pa  # noqa: E402
from test_namegate import KEYS, PROFILES, rows  # noqa: E402


def test_expressions_check_names():
    names = pl.DataFrame({"name": [b"report.txt", b"aux.txt", b"caf\xe9", None]})
    for frame in [names, names.lazy()]:
        checked = frame.lazy().select(pl.col("name").namegate.check("windows").struct.unnest()).collect()
        assert checked["verdict"].to_list() == ["accept", "reject", "reject", None]
        assert checked["rules"].to_list() == [[], ["reserved-name"], ["truncated"], None]
    assert names["name"].namegate.check("windows").struct.field("repair").to_list()[1] == "aux_.txt"


def test_text_is_checked():
    checked = pl.Series("name", ["aux.txt", "b"]).namegate.check("windows")
    assert checked.struct.field("verdict").to_list() == ["reject", "accept"]


def test_expressions_check_keys_and_paths():
    paths = pl.DataFrame({"path": [b"a/report.txt", b"a/aux.txt", b"./caf\xe9/b", None]})
    for shape, rules in [("keys", ["dot-name", "truncated"]), ("paths", ["truncated"])]:
        for frame in [paths, paths.lazy()]:
            checked = frame.lazy().select(pl.col("path").namegate.check("windows", shape=shape).struct.unnest()).collect()
            assert checked["verdict"].to_list() == ["accept", "reject", "reject", None]
            assert checked["rules"].to_list() == [[], ["reserved-name"], rules, None]
    assert paths["path"].namegate.check("windows", shape="keys").struct.field("repair").to_list()[1] == "a/aux_.txt"


def test_a_series_can_be_scanned():
    assert rows(namegate.scan(pl.Series(KEYS), PROFILES)) == rows(namegate.scan(pa.array(KEYS), PROFILES))
