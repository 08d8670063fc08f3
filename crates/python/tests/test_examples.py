"""The code in the pages and notebooks runs, and gives what they say."""

import json
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent


def test_the_code_of_the_readme_runs():
    text = (PACKAGE / "README.md").read_text()
    blocks = text.split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.split("```")[0], {})


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
    assert len(variables["refused"]) > 0
