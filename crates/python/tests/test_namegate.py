"""The package against the program: the same findings, whichever library holds the data."""

import base64
import json
import os
import pickle
import subprocess

import namegate
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROFILES = ["windows", "macos", "s3"]


def make_keys():
    """A few thousand keys, some with each kind of defect; deterministic."""
    keys = [b"logs/%02d/%03d/part-%d.parquet" % (a, b, c) for a in range(20) for b in range(20) for c in range(20)]
    for at in range(0, len(keys), 97):
        directory = keys[at].rsplit(b"/", 1)[0]
        keys += [
            directory + b"/caf\xe9-%d" % at,
            directory + b"/aux.txt",
            directory + b"/Report-%d" % at,
            directory + b"/report-%d" % at,
            directory + b"/na\xc3\xafve-%d" % at,
            directory + b"/nai\xcc\x88ve-%d" % at,
            directory + b"/\xed\xa0\x80",
            directory + b"/a\xc0\xafb/c:d/%d" % at,
        ]
    return keys


KEYS = make_keys()


def rows(findings):
    """Findings as comparable rows."""
    table = pa.RecordBatchReader.from_stream(findings).read_all()
    return sorted(json.dumps(row, default=lambda value: value.hex()) for row in table.to_pylist())


@pytest.fixture(scope="session")
def program():
    path = os.environ.get("NAMEGATE")
    if path is None:
        pytest.skip("SKIPPED: NAMEGATE does not name the program to compare with")
    return path


FIELDS = ["verdict", "rule", "concern", "severity", "start", "end", "message", "group"]
FIELDS += ["repair", "repair_confidence", "reading", "reading_confidence"]


def listed(program, keys):
    """What the program finds in a list of these keys."""
    options = ["-0", "--list-as", "keys", "--format", "json", "--profile", ",".join(PROFILES)]
    run = subprocess.run(
        [program, "scan", "--list", "-", *options], input=b"".join(key + b"\0" for key in keys), capture_output=True
    )
    assert run.returncode in (0, 1), run.stderr.decode()
    found = set()
    for line in run.stdout.splitlines():
        record = json.loads(line)
        for violation in record.get("violations", []):
            fields = record | violation
            path = base64.b64decode(fields["path_base64"])
            found.add((path, *(fields.get(field) for field in FIELDS), *fields["profiles"]))
    return found


def found(findings):
    """The same of findings."""
    table = pa.table(findings)
    return {
        (
            b"/".join(part for part in (row["directory"], row["name"]) if part),
            *(row[field] for field in FIELDS),
            *row["profiles"],
        )
        for row in table.to_pylist()
    }


def test_a_scan_finds_what_the_program_finds(program):
    expected = listed(program, KEYS)
    assert len(expected) > 500
    assert found(namegate.scan(pa.array(KEYS), PROFILES)) == expected


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_every_layout_of_bytes_gives_the_same(type_):
    assert rows(namegate.scan(pa.array(KEYS, type=type_), PROFILES)) == rows(namegate.scan(pa.array(KEYS), PROFILES))


def test_text_that_is_not_utf8_is_read_as_its_bytes():
    binary = pa.array(KEYS)
    text = pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())
    assert rows(namegate.scan(text, PROFILES)) == rows(namegate.scan(binary, PROFILES))
    dictionary = binary.dictionary_encode()
    assert rows(namegate.scan(dictionary, PROFILES)) == rows(namegate.scan(binary, PROFILES))


def test_chunks_and_tables_of_one_column_are_columns():
    chunks = pa.chunked_array([KEYS[:1000], [], KEYS[1000:]], type=pa.binary())
    assert rows(namegate.scan(chunks, PROFILES)) == rows(namegate.scan(pa.array(KEYS), PROFILES))
    table = pa.table({"key": chunks})
    assert rows(namegate.scan(table, PROFILES)) == rows(namegate.scan(pa.array(KEYS), PROFILES))
    with pytest.raises(TypeError, match="table of 2 columns"):
        namegate.check(pa.table({"a": chunks, "b": chunks}), PROFILES)


def test_tasks_that_get_whole_directories_find_what_one_task_finds():
    # As engines do it: pairs of parts of the keys, in any order and several times, brought together by parent.
    parts = [namegate.pairs(pa.array(KEYS[at::7])) for at in range(7)] + [namegate.pairs(pa.array(KEYS[::3]))]
    pairs = pa.concat_tables(pa.RecordBatchReader.from_stream(part).read_all() for part in parts)
    tasks = [[] for _ in range(5)]
    for at, parent in enumerate(pairs["parent"].to_pylist()):
        tasks[sum(parent) % 5].append(at)
    together, names = [], 0
    for task, members in enumerate(tasks):
        findings = namegate.check_directories(pairs.take(members), PROFILES, memory=1 << 16)
        together += rows(findings)
        summary = pa.record_batch(findings.summary(str(task))).to_pylist()[0]
        assert summary["task"] == str(task) and summary["profiles"] == PROFILES
        names += summary["names"]
    whole = namegate.scan(pa.array(KEYS), PROFILES)
    assert sorted(together) == rows(whole)
    assert names == pa.record_batch(whole.summary()).to_pylist()[0]["names"]


def table_of(batches):
    return pa.RecordBatchReader.from_stream(batches).read_all()


def test_cut_directories_have_the_findings_of_whole_ones():
    # As engines do it: parts of the pairs in any order, brought together by number, then by parent.
    pairs = table_of(namegate.pairs(pa.array(KEYS)))
    numbered = pa.concat_tables(table_of(namegate.number_names(pairs.take(list(range(at, len(pairs), 3))), PROFILES)) for at in range(3))
    by_number, names = [[], []], 0
    for at, number in enumerate(numbered["number"].to_pylist()):
        by_number[number % 2].append(at)
    facts = []
    for task, members in enumerate(by_number):
        candidates, summary = namegate.find_candidates(numbered.take(members), PROFILES, task=str(task))
        facts.append(table_of(candidates))
        names += pa.record_batch(summary).to_pylist()[0]["names"]
    facts = pa.concat_tables(facts)
    while len(wanted := table_of(namegate.wanted_numbers(facts, PROFILES))):
        with pytest.raises(pa.ArrowException, match="wanted"):
            rows(namegate.check_candidates(facts, PROFILES))
        asked = {(row["parent"], row["number"]) for row in wanted.to_pylist()}
        occupants = [
            {"parent": row["parent"], "kind": "occupant", "name": row["name"], "number": None}
            for row in numbered.to_pylist()
            if (row["parent"], row["number"]) in asked
        ]
        facts = pa.concat_tables([facts, wanted, pa.Table.from_pylist(occupants, schema=facts.schema)])
    whole = namegate.scan(pa.array(KEYS), PROFILES)
    assert rows(namegate.check_candidates(facts, PROFILES)) == rows(whole)
    assert names == pa.record_batch(whole.summary()).to_pylist()[0]["names"]


def writers(findings):
    """Writes a table as other programs do: another compression, dictionaries, small row groups, types without Arrow's schema."""

    def by_pyarrow(path, version):
        pq.write_table(findings, path, compression="zstd", data_page_version=version, row_group_size=99, data_page_size=2_000)

    def by_duckdb(path):
        duckdb = pytest.importorskip("duckdb")
        duckdb.from_arrow(findings).write_parquet(str(path), compression="zstd", row_group_size=2048)

    def by_polars(path):
        polars = pytest.importorskip("polars")
        polars.from_arrow(findings).write_parquet(path)

    return [lambda path: by_pyarrow(path, "1.0"), lambda path: by_pyarrow(path, "2.0"), by_duckdb, by_polars]


@pytest.mark.parametrize("writer", range(4))
def test_the_program_reports_findings_that_others_wrote(program, tmp_path, writer):
    scanned = namegate.scan(pa.array(KEYS), PROFILES)
    findings = table_of(scanned)
    summary = pa.Table.from_batches([pa.record_batch(scanned.summary("0"))])

    def report(directory, write):
        directory.mkdir()
        write(directory / "findings.parquet")
        pq.write_table(summary, directory / "summaries.parquet")
        run = subprocess.run([program, "report", directory, "--format", "json"], capture_output=True)
        assert run.returncode == 1, run.stderr.decode()
        return run.stdout

    expected = report(tmp_path / "expected", lambda path: pq.write_table(findings, path))
    shuffled = findings.take(sorted(range(len(findings)), key=lambda at: at * 7919 % len(findings)))
    found = report(tmp_path / "found", writers(shuffled)[writer])
    assert found == expected
    assert len(found.splitlines()) > 500


def test_a_key_that_cannot_be_checked_becomes_a_row():
    keys = pa.array([None, b"x" * 70_000, b"d/" * 2_000 + b"n", b"fine"], type=pa.binary())
    findings = namegate.scan(keys, "windows")
    table = pa.RecordBatchReader.from_stream(findings).read_all()
    assert table["verdict"].to_pylist() == ["fault"] * 3
    assert pa.record_batch(findings.summary()).to_pylist()[0]["faults"] == 3
    not_encoded = namegate.scan(pa.array([b"100%"]), "windows", decode="percent")
    assert pa.RecordBatchReader.from_stream(not_encoded).read_all()["verdict"].to_pylist() == ["fault"]


def test_names_are_checked_one_by_one():
    names = pa.array([b"report.txt", b"aux.txt", b"caf\xe9", None, b"x" * 70_000, b"AUX.txt"])
    checked = namegate.check(names, "windows")
    assert len(checked) == 6
    checked = pa.array(checked)
    assert checked.field("verdict").to_pylist() == ["accept", "reject", "reject", None, "fault", "reject"]
    assert checked.field("rules").to_pylist() == [[], ["reserved-name"], ["truncated"], None, [], ["reserved-name"]]
    assert checked.field("repair").to_pylist()[:2] == [None, "aux_.txt"]
    assert pa.chunked_array(namegate.check(pa.chunked_array([names, names]), "windows")).num_chunks == 2
    assert pa.array(namegate.check(pa.array([], type=pa.binary()), "windows")).to_pylist() == []


PATHS = [b"2026/report.txt", b"2026/aux/caf\xe9.txt", b"2026//a", b"2026/x:y/", b"/srv/./a", None, b"d/" * 2000, b"d/" * 600]


@pytest.mark.parametrize(
    ("shape", "verdicts", "rules", "repairs"),
    [
        (
            "keys",
            ["accept", "reject", "reject", "reject", "reject", None, "fault", "warn"],
            [["reserved-name", "truncated"], ["empty-name"], ["reserved-character"], ["empty-name", "dot-name"]],
            ["2026/aux_/café.txt", "2026/_/a", "2026/x_y/", "_/srv/_/a"],
        ),
        (
            "paths",
            ["accept", "reject", "accept", "reject", "accept", None, "fault", "warn"],
            [["reserved-name", "truncated"], [], ["reserved-character"], []],
            ["2026/aux_/café.txt", None, "2026/x_y/", None],
        ),
    ],
)
def test_keys_and_paths_are_checked_name_by_name(shape, verdicts, rules, repairs):
    checked = pa.array(namegate.check(pa.array(PATHS), "windows", shape=shape))
    assert checked.field("verdict").to_pylist() == verdicts
    assert checked.field("rules").to_pylist()[1:5] == rules
    assert checked.field("rules").to_pylist()[7] == ["path-too-long"]
    assert checked.field("repair").to_pylist()[1:5] == repairs
    assert checked.field("message").to_pylist()[1] == "`aux`: `aux` is a reserved name (windows)"


def test_a_column_of_paths_that_is_checked_as_names_gives_a_warning(recwarn):
    with pytest.warns(UserWarning, match='2 of 3 names have a `/`.*shape="keys".*shape="paths".*ng_check_path'):
        checked = namegate.check(pa.array([b"a/b", b"a/c", b"d"]), "windows")
    messages = pa.array(checked).field("message").to_pylist()
    assert "shape `paths` or `keys`" in messages[0] and messages[2] is None
    # One such name is a finding.
    namegate.check(pa.array([b"a/b", b"c", b"d"]), "windows")
    namegate.check(pa.array([b"a/b", b"a/c"]), "windows", shape="paths")
    assert len(recwarn) == 0


def test_encoded_keys_are_decoded():
    found = namegate.scan(pa.array(["a+b/caf%E9"]), "utf8", decode="form")
    assert pa.RecordBatchReader.from_stream(found).read_all()["directory"].to_pylist() == [b"a b"]


def test_rows_can_be_read_once_and_the_summary_afterwards():
    findings = namegate.scan(pa.array(KEYS), PROFILES)
    with pytest.raises(RuntimeError, match="read all of them first"):
        findings.summary()
    rows(findings)
    with pytest.raises(ValueError, match="read once"):
        rows(findings)


def test_a_policy_can_be_sent_to_a_worker():
    config = 'profiles = ["utf8"]\n[limits]\nname-bytes = 10\n'
    for policy in [namegate.Policy(PROFILES), namegate.Policy(config=config), namegate.Policy()]:
        there = pickle.loads(pickle.dumps(policy))
        assert there.profiles == policy.profiles
        names = pa.array([b"a-long-file-name", b"aux", b"\xff"])
        assert pa.array(namegate.check(names, there)).equals(pa.array(namegate.check(names, policy)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: namegate.Policy("windos"), "windows"),
        (lambda: namegate.Policy(config="limits = 3"), "config"),
        (lambda: namegate.pairs(pa.array(KEYS), shape="key"), "'keys', 'paths', 'files', 'names'"),
        (lambda: namegate.check(pa.array(KEYS), shape="key"), "'keys', 'paths', 'files', 'names'"),
        (lambda: namegate.pairs(pa.array(KEYS), decode="rot13"), "'percent'"),
        (lambda: namegate.scan(pa.array(KEYS), min_severity="info"), "'error'"),
        (lambda: namegate.scan(pa.array(KEYS), encoding="latin-0"), "latin-0"),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_can_be(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


def test_columns_of_another_type_are_refused():
    with pytest.raises(TypeError, match="Int64"):
        namegate.check(pa.array([1, 2]))
    with pytest.raises(TypeError, match="no column `parent`"):
        namegate.check_directories(pa.table({"dir": pa.array([b"a"])}))
    with pytest.raises(ValueError, match="__arrow_c_array__"):
        namegate.check(["a", "b"])
