"""The code in the pages and notebooks runs, and gives what they say."""

import ast
import json
import pathlib
import subprocess

import namegate
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_namegate import program  # noqa: F401

PACKAGE = pathlib.Path(__file__).parent.parent


def test_the_code_of_the_readme_runs():
    text = (PACKAGE / "README.md").read_text()
    blocks = text.split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.split("```")[0], {})


def test_the_code_of_the_engines_page_runs_and_takes_keys(tmp_path, monkeypatch, recwarn, program):  # noqa: F811
    for module in ("duckdb", "polars"):
        pytest.importorskip(module, reason=f"SKIPPED: {module} is not installed")
    keys = pa.array([b"2026/report.txt", b"2026/aux.txt", b"2026/caf\xe9/a.txt"])
    pq.write_table(pa.table({"key": keys}), tmp_path / "inventory.parquet")
    monkeypatch.chdir(tmp_path)
    page = PACKAGE.parent.parent / "docs" / "ENGINES.md"
    blocks = page.read_text().split("```python\n")[1:]
    variables, values = {}, []
    for statement in ast.parse("".join(block.split("```")[0] for block in blocks)).body:
        if isinstance(statement, ast.Expr):
            values.append(eval(ast.unparse(statement), variables))
        else:
            exec(ast.unparse(statement), variables)
    checked = [pa.array(value) for value in values if isinstance(value, namegate.CheckedNames)]
    assert [column.field("verdict").to_pylist() for column in checked] == [["accept", "reject"]] * 3
    duckdb, polars = variables["duckdb"], variables["pl"]
    queries = [value.fetchall() for value in values if isinstance(value, duckdb.DuckDBPyRelation)]
    assert [row[0] for row in queries[0]] == keys.to_pylist()[1:]
    assert sorted(queries[1]) == [([], 1), (["reserved-name"], 1), (["truncated"], 1)]
    assert queries[2] == [("a/aux.txt",)]
    frames = [value for value in values if isinstance(value, polars.DataFrame)]
    assert [frame["key"].to_list() for frame in frames] == [keys.to_pylist()[1:]]
    assert not [str(warning.message) for warning in recwarn if "shape" in str(warning.message)]
    run = subprocess.run([program, "report", "findings"], capture_output=True)
    assert run.returncode == 1 and b"aux.txt" in run.stdout, run.stderr.decode()
    # Without a summary nobody knows whether the findings are all.
    run = subprocess.run([program, "report", "findings/findings.parquet"], capture_output=True)
    assert run.returncode == 2 and b"findings.summary()" in run.stderr, run.stderr.decode()


def test_the_notebook_runs(tmp_path, monkeypatch):
    for module in ("duckdb", "polars"):
        pytest.importorskip(module, reason=f"SKIPPED: {module} is not installed")
    notebook = json.loads((PACKAGE / "examples" / "inventory.ipynb").read_text())
    monkeypatch.chdir(tmp_path)
    variables = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), variables)
    rules = variables["table"]["rule"].to_pylist()
    assert {"collision-case", "reserved-name", "truncated", "reserved-character", "trailing-space"} <= set(rules)
    # 1,006 keys, and the directories reports, reports/2026 and scans.
    assert variables["summary"]["names"] == 1009
    assert dict(variables["by_verdict"]) == {"accept": 1002, "reject": 4}
    assert len(variables["refused"]) == 4
