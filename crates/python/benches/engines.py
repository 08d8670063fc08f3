"""Measures the package in DuckDB, Polars and one process: python engines.py INVENTORY.parquet WHAT

Prints one line: names, seconds, seconds of processor time, MiB. scripts/bench-engine runs each in a process of its own.
"""

import resource
import sys
import time

import namegate
import pyarrow as pa
import pyarrow.parquet as pq

PROFILES = ["windows", "macos"]
# What people write instead: the characters that Windows reserves, and its reserved names.
REGEXP = r'[<>:"\\|?*\x00-\x1f]|[. ]$|^(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)'


def scan(path):
    file = pq.ParquetFile(path)
    keys = pa.RecordBatchReader.from_batches(
        pa.schema([("key", pa.binary())]), file.iter_batches(batch_size=1 << 17, columns=["key"])
    )
    findings = namegate.scan(keys, PROFILES)
    rows = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(findings))
    return pa.record_batch(findings.summary()).to_pylist()[0]["names"], rows


def polars(path):
    import namegate.polars
    import polars as pl

    checked = pl.read_parquet(path).select(pl.col("key").namegate.check(namegate.Policy(PROFILES), shape="keys"))
    verdicts = checked.to_series().struct.field("verdict")
    return len(verdicts), (verdicts != "accept").sum()


def duckdb(path):
    import duckdb
    import namegate.duckdb

    con = duckdb.connect()
    namegate.duckdb.register(con, PROFILES)
    return con.execute(
        "SELECT count(*), count(*) FILTER (WHERE ng_check_key(key).verdict <> 'accept') FROM read_parquet(?)", [path]
    ).fetchone()


def duckdb_regexp(path):
    import duckdb

    # What is not UTF-8 becomes null. Polars has no such expression: it stops at the first name that is not UTF-8.
    return duckdb.connect().execute(
        "SELECT count(*), count(*) FILTER (WHERE regexp_matches(try(decode(key)), ?)) FROM read_parquet(?)", [REGEXP, path]
    ).fetchone()


def main():
    path, what = sys.argv[1:]
    begin, used = time.monotonic(), time.process_time()
    names, bad = globals()[what.replace("-", "_")](path)
    wall, cpu = time.monotonic() - begin, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{names} {wall:.2f} {cpu:.2f} {memory} {bad}")


if __name__ == "__main__":
    main()
