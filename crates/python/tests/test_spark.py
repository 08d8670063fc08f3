"""In Spark: a standalone cluster on the loopback interface, two workers of one core each."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pyspark = pytest.importorskip("pyspark", reason="SKIPPED: pyspark is not installed; scripts/test-engine installs it")
import namegate  # noqa: E402
import namegate.spark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from test_namegate import PROFILES, found, listed, program  # noqa: E402, F401

COUNT = 200_000


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    directory = tmp_path_factory.mktemp("spark")
    start = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class")
    # Workers run the Python that has the package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(directory)}
    port = free_port()
    log = open(directory / "log", "w")

    def run(name, *arguments):
        command = [start, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=directory)

    master = f"spark://127.0.0.1:{port}"
    servers = [run("master.Master", "--port", str(port), "--webui-port", "0")]
    servers += [
        run("worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(directory / name), master)
        for name in ("one", "two")
    ]
    session = None
    try:
        session = (
            SparkSession.builder.master(master)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.executor.memory", "600m")
            .config("spark.ui.enabled", "false")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        context = session.sparkContext
        deadline = time.monotonic() + 120
        # The driver counts too.
        while context._jsc.sc().getExecutorMemoryStatus().size() < 3:
            assert time.monotonic() < deadline, (directory / "log").read_text()
            time.sleep(0.2)
        yield session
    finally:
        if session is not None:
            session.stop()
        for server in servers:
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def keys():
    keys = [b"tables/%d/day=%03d/part-%06d.parquet" % (at % 7, at % 365, at) for at in range(COUNT)]
    for at in range(0, COUNT, 100):
        bad = [b"caf\xe9-%d", b"aux.%d", b"a:%d", b"PART-%06d.parquet", b"na\xc3\xafve-%d ", b"\xed\xa0\x80%d"][at // 100 % 6]
        keys[at] = keys[at].rsplit(b"/", 1)[0] + b"/" + bad % (at + 1 if at // 100 % 6 == 3 else at)
    # A directory as large as all the others together.
    return keys + [b"one/%d" % at for at in range(20_000)] + [b"one/%dX" % at for at in range(9)] + [b"one/%dx" % at for at in range(9)]


@pytest.fixture(scope="module")
def inventory(keys, tmp_path_factory):
    path = tmp_path_factory.mktemp("inventory")
    for part in range(8):
        pq.write_table(pa.table({"key": pa.array(keys[part::8])}), path / f"{part}.parquet")
    return str(path)


def digest(rows):
    lines = sorted(json.dumps(row, default=lambda value: value.hex()) for row in rows)
    assert len(lines) > 1_000
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.fixture(scope="module")
def expected(program, keys):  # noqa: F811
    return digest(listed(program, keys))


def digest_of(frame):
    return digest(found(pa.table(frame.toArrow())))


def scanned(spark, inventory):
    return namegate.spark.scan(spark.read.parquet(inventory), profiles=PROFILES, partitions=6)


def test_many_tasks_find_what_the_program_finds(spark, inventory, expected):
    scan = scanned(spark, inventory)
    rows = scan.rows.persist()
    scan = namegate.spark.Scan(rows)
    assert digest_of(scan.findings) == expected
    total = scan.total()
    names = pa.record_batch(summary_of(inventory)).to_pylist()[0]
    assert {what: total[what] for what in ("names", "directories", "collisions")} == {
        what: names[what] for what in ("names", "directories", "collisions")
    }
    assert scan.summaries.count() == 6
    rows.unpersist()


def summary_of(inventory):
    findings = namegate.scan(pq.read_table(inventory)["key"], PROFILES)
    found(findings)
    return findings.summary()


def test_an_executor_that_is_killed_loses_nothing(spark, inventory, expected, tmp_path):
    flag = tmp_path / "killed"

    def kill_once(batches):
        # In the same stage as the check, after its first rows.
        for batch in batches:
            yield batch
            if not flag.exists():
                flag.touch()
                process = os.getpid()
                while b"CoarseGrainedExecutorBackend" not in open(f"/proc/{process}/cmdline", "rb").read():
                    process = int(open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[1])
                os.kill(process, signal.SIGKILL)
                time.sleep(60)

    rows = scanned(spark, inventory).rows
    survived = rows.mapInArrow(kill_once, rows.schema)
    assert digest_of(namegate.spark.Scan(survived).findings) == expected
    assert flag.exists()


def test_a_task_that_is_run_again_finds_nothing_twice(spark, inventory, expected, tmp_path):
    flag = tmp_path / "failed"

    def fail_once(batches):
        for batch in batches:
            yield batch
        if not flag.exists():
            flag.touch()
            raise RuntimeError("this task fails once")

    rows = scanned(spark, inventory).rows
    again = rows.mapInArrow(fail_once, rows.schema)
    assert digest_of(namegate.spark.Scan(again).findings) == expected
    assert flag.exists()


@pytest.mark.parametrize("split", [10_000, 20])
def test_a_directory_that_is_cut_is_checked_as_a_whole(spark, inventory, expected, split):
    frame = spark.read.parquet(inventory)
    scan = namegate.spark.scan(frame, profiles=PROFILES, partitions=6, split_directory=split)
    rows = scan.rows.persist()
    scan = namegate.spark.Scan(rows)
    assert digest_of(scan.findings) == expected
    counted = pa.record_batch(summary_of(inventory)).to_pylist()[0]
    total = scan.total()
    whole = ("names", "directories", "collisions", "findings", "faults")
    assert {what: total[what] for what in whole} == {what: counted[what] for what in whole}
    rows.unpersist()


def test_text_that_is_not_utf8_keeps_its_bytes(spark, tmp_path):
    names = pa.array([b"d/caf\xe9", b"d/aux"])
    text = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
    pq.write_table(pa.table({"key": text}), tmp_path / "text.parquet")
    found = namegate.spark.scan(spark.read.parquet(str(tmp_path / "text.parquet")), profiles="windows", partitions=2).findings
    assert {bytes(row["name"]) for row in found.collect()} == {b"caf\xe9", b"aux"}


def test_keys_that_cannot_be_checked_become_rows(spark):
    keys = spark.createDataFrame([(None,), (bytearray(b"x" * 70_000),), (bytearray(b"fine"),)], "key binary")
    scan = namegate.spark.scan(keys, profiles="windows", partitions=3)
    assert [row["verdict"] for row in scan.findings.collect()] == ["fault", "fault"]
    assert scan.total()["faults"] == 2


def test_summaries_of_different_policies_are_not_added_up(spark, inventory):
    frames = [namegate.spark.scan(spark.read.parquet(inventory).limit(5), profiles=profile, partitions=2).rows for profile in ("windows", "macos")]
    with pytest.raises(ValueError, match="`policy`"):
        namegate.spark.Scan(frames[0].union(frames[1])).total()


def test_the_command_writes_findings_and_prints_the_sums(spark, inventory, tmp_path, capsys):
    output = tmp_path / "out"
    arguments = ["--input", inventory, "--profile", "windows", "--output", str(output), "--partitions", "3"]
    namegate.spark.main(arguments)
    total = json.loads(capsys.readouterr().out)
    findings, summaries = (pq.read_table(output / name) for name in ("findings", "summaries"))
    assert sum(summaries["names"].to_pylist()) == total["names"] > COUNT
    assert "reserved-name" in findings["rule"].to_pylist()
    with pytest.raises(SystemExit):
        namegate.spark.main([*arguments[:3], "windos", *arguments[4:]])
    assert "`windows`" in capsys.readouterr().err
