"""namegate in Spark.

    >>> import namegate.spark
    >>> scan = namegate.spark.scan(spark.read.parquet("s3a://bucket/inventory/"), profiles=["windows", "macos"])
    >>> scan.findings.write.parquet("s3a://bucket/findings/")

From a shell: ``python -m namegate.spark --help``. The wheel must be installed where the workers of Spark run Python.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as _pyarrow
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as _functions

from . import Policy, check_candidates, check_directories, find_candidates, number_names, wanted_numbers
from . import pairs as _pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._namegate import Batches, Decoding, Findings, Pairs, Profiles, Shape, Summary

PAIRS = "parent binary, name binary, fault string, entry string"
FINDINGS = (
    "directory binary, name binary, path_encoded string, verdict string, rule string, concern string, severity string, "
    "start int, end int, message string, profiles array<string>, refused_by array<string>, group string, repair string, "
    "repair_confidence string, reading string, reading_confidence string, certain string"
)
SUMMARY_COLUMN = "summary"
SUMMARY = (
    "task string, names bigint, directories bigint, collisions bigint, faults bigint, policy string, unicode string, "
    "namegate string, profiles array<string>, findings bigint, min_severity string"
)
ROWS = f"{FINDINGS}, {SUMMARY_COLUMN} struct<{SUMMARY}>"
NUMBERED = "parent binary, name binary, number bigint, suspect boolean, first boolean, entry string"
CANDIDATES = "parent binary, kind string, name binary, number bigint, entry string"

# A task with more names than this keeps a part of them in temporary files.
NAMES_PER_PARTITION = 5_000_000


@dataclasses.dataclass(frozen=True)
class Scan:
    """The result of ``scan``.

    Attributes:
        rows: The findings, and one row of counts for each task, whose column ``summary`` is set.
    """

    rows: DataFrame

    @property
    def findings(self) -> DataFrame:
        """One row for each violation."""
        return self.rows.where("summary IS NULL").drop("summary")

    @property
    def summaries(self) -> DataFrame:
        """One row for each task."""
        return self.rows.where("summary IS NOT NULL").select("summary.*")

    def total(self) -> dict[str, Any]:
        """The counts of all tasks together, and what names were checked with.

        Raises:
            ValueError: The tasks did not check with the same policy and versions.
        """
        total: dict[str, Any] = {}
        for row in self.summaries.drop("task").collect():
            task = row.asDict()
            if not total:
                total = task
                continue
            for what in ("policy", "unicode", "namegate", "profiles", "min_severity"):
                if task[what] != total[what]:
                    raise ValueError(
                        f"the tasks checked with different values of `{what}`: {total[what]} and {task[what]}; "
                        "install the same version of namegate on all workers"
                    )
            for what in _COUNTS:
                total[what] += task[what]
        return total or dict.fromkeys(_COUNTS, 0)


_COUNTS = ("names", "directories", "collisions", "faults", "findings")


def scan(
    keys: DataFrame,
    *,
    key: str = "key",
    profiles: Profiles = None,
    shape: Shape = "keys",
    decode: Decoding = "none",
    prefix: bytes | None = None,
    encoding: str | None = None,
    min_severity: Literal["warn", "error"] = "warn",
    partitions: int | None = None,
    split_directory: int | None = None,
) -> Scan:
    """Checks the keys of a table: each name, and the names of each directory against each other.

    The findings are those of ``namegate scan --list``, whatever the number of tasks. Nothing is computed before the result
    is read, unless ``split_directory`` is given; if it is read more than once, persist ``Scan.rows``.

    Args:
        keys: The table.
        key: Its column of keys: BINARY, or STRING, of which Spark keeps bytes that are not UTF-8.
        profiles: A policy, or the names of profiles; ``strict`` by default.
        shape: What a key is; see ``namegate.pairs``.
        decode: How keys are encoded; see ``namegate.pairs``.
        prefix: The path of the root on the target; lengths of paths count it.
        encoding: The encoding of names that are not UTF-8, for suggested names.
        min_severity: ``error`` leaves warnings out.
        partitions: The number of tasks that check directories. By default two for each core, or more, so that each has at
            most about 5 million names; to find that out, the rows are counted.
        split_directory: Directories with more names than this are cut, and checked by several tasks. To find them, the names of each
            directory are counted. By default none is cut: a directory is one task, whose memory is bounded but not its time.
    """
    policy = profiles if isinstance(profiles, Policy) else Policy(profiles)
    if partitions is None:
        cores = keys.sparkSession.sparkContext.defaultParallelism
        partitions = max(2 * cores, -(-keys.count() // NAMES_PER_PARTITION))

    def split(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatch]:
        for together in _together(batches):
            yield from _batches(_pairs(together, shape=shape, decode=decode))

    settings: dict[str, Any] = {"prefix": prefix, "encoding": encoding, "min_severity": min_severity}

    def check(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatch]:
        for together in _together(batches):
            yield from _with_summary(check_directories(together, policy, **settings), FINDINGS)

    pairs = keys.select(_functions.col(key).cast("binary")).mapInArrow(split, PAIRS)
    cut = None
    if split_directory is not None:
        pairs, large = _separate(pairs, split_directory)
        cut = large and _scan_cut(large, policy, settings, partitions)
    # Given a number, Spark does not merge partitions afterwards.
    rows = pairs.repartition(partitions, "parent").mapInArrow(check, ROWS)
    return Scan(rows if cut is None else rows.unionByName(cut))


def _separate(pairs: DataFrame, split_directory: int) -> tuple[DataFrame, DataFrame | None]:
    """The pairs of ordinary directories, and those of directories with more names than this, if there are any."""
    counts = pairs.where("parent IS NOT NULL").groupBy("parent").count()
    parents = [(row["parent"],) for row in counts.where(_functions.col("count") > split_directory).collect()]
    if not parents:
        return pairs, None
    large = pairs.sparkSession.createDataFrame(parents, "parent binary").withColumn("is_large", _functions.lit(True))
    # A key that cannot be checked has no parent.
    marked = pairs.join(_functions.broadcast(large), "parent", "left")
    ordinary, cut = (marked.where(f"is_large IS {what}").select(*pairs.columns) for what in ("NULL", "NOT NULL"))
    return ordinary, cut.drop("fault")


def _scan_cut(pairs: DataFrame, policy: Policy, settings: dict[str, Any], partitions: int) -> DataFrame:
    """The findings of directories whose names are distributed among all tasks."""

    def number(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatch]:
        for together in _together(batches):
            yield from _batches(number_names(together, policy, prefix=settings["prefix"]))

    def find(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatch]:
        for together in _together(batches):
            yield from _with_summary(find_candidates(together, policy, task=_task(), **settings), CANDIDATES)

    def ask(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatch]:
        for together in _together(batches):
            yield from _batches(wanted_numbers(together, policy, **settings))

    def check(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatch]:
        for together in _together(batches):
            yield from _with_summary(check_candidates(together, policy, **settings), FINDINGS)

    def kept(frame: DataFrame) -> DataFrame:
        return frame.persist(StorageLevel.DISK_ONLY)

    numbered = kept(pairs.mapInArrow(number, NUMBERED).repartition(partitions, "number"))
    found = kept(numbered.mapInArrow(find, f"{CANDIDATES}, {SUMMARY_COLUMN} struct<{SUMMARY}>"))
    facts = found.where("summary IS NULL").drop(SUMMARY_COLUMN)
    while True:
        wanted = kept(facts.repartition(partitions, "parent").mapInArrow(ask, CANDIDATES))
        if wanted.isEmpty():
            break
        named = numbered.join(wanted.select("parent", "number"), ["parent", "number"], "leftsemi")
        occupants = named.selectExpr("parent", "'occupant' AS kind", "name", "CAST(NULL AS bigint) AS number", "CAST(NULL AS string) AS entry").distinct()
        facts = kept(facts.unionByName(wanted).unionByName(occupants))
    checked = facts.repartition(partitions, "parent").mapInArrow(check, ROWS)
    summaries = found.where("summary IS NOT NULL").select(SUMMARY_COLUMN)
    return checked.unionByName(summaries, allowMissingColumns=True)


def _task() -> str:
    context = TaskContext.get()
    assert context is not None, "Spark runs this in a task"
    return str(context.partitionId())


def _with_summary(
    found: Findings | tuple[Batches, Summary], columns: str
) -> Iterator[_pyarrow.RecordBatch]:
    """The rows, and one row that has only the summary."""
    rows, summary = found if isinstance(found, tuple) else (found, None)
    for batch in _batches(rows):
        yield batch.append_column(SUMMARY_COLUMN, _pyarrow.nulls(batch.num_rows, _arrow_struct(SUMMARY)))
    row = _pyarrow.record_batch(rows.summary(_task()) if summary is None else summary)
    empty = [_pyarrow.nulls(1, field.type) for field in _arrow_struct(columns)]
    arrays = [*empty, row.to_struct_array().cast(_arrow_struct(SUMMARY))]
    names = [field.name for field in _arrow_struct(columns)] + [SUMMARY_COLUMN]
    yield _pyarrow.RecordBatch.from_arrays(arrays, names)


def _together(batches: Iterator[_pyarrow.RecordBatch]) -> Iterator[_pyarrow.RecordBatchReader]:
    """All batches of a task as one stream; nothing if there are none."""
    first = next(batches, None)
    if first is not None:
        yield _pyarrow.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))


def _batches(stream: Pairs | Findings | Batches) -> _pyarrow.RecordBatchReader:
    return _pyarrow.RecordBatchReader.from_stream(stream)


_ARROW_TYPES = {
    "binary": _pyarrow.binary(),
    "string": _pyarrow.string(),
    "int": _pyarrow.int32(),
    "bigint": _pyarrow.int64(),
    "boolean": _pyarrow.bool_(),
    "array<string>": _pyarrow.list_(_pyarrow.string()),
}


def _arrow_struct(columns: str) -> _pyarrow.StructType:
    """The type in Arrow of columns that are declared as in SQL."""
    declared = (column.split(" ") for column in columns.split(", "))
    return _pyarrow.struct([(name, _ARROW_TYPES[type_]) for name, type_ in declared])


def main(arguments: list[str] | None = None) -> None:
    """``python -m namegate.spark``"""
    parser = argparse.ArgumentParser(
        prog="python -m namegate.spark",
        description="Checks the keys of an inventory with Spark. Writes OUTPUT/findings and OUTPUT/summaries as Parquet, "
        "and prints the total as JSON. The exit status is 0 also if there are findings: cluster managers would take "
        "another one for a failure.",
    )
    parser.add_argument("--input", required=True, nargs="+", metavar="PATH", help="files or directories that Spark reads")
    parser.add_argument("--format", default="parquet", help="their format in Spark (default: %(default)s)")
    parser.add_argument("--key", default="key", metavar="COLUMN", help="the column of keys (default: %(default)s)")
    parser.add_argument("--output", required=True, metavar="PATH", help="a directory that does not exist yet")
    parser.add_argument(
        "--profile",
        metavar="NAME,...",
        help="profiles, as of `namegate profiles` (default: those of --config, or strict)",
    )
    parser.add_argument("--config", metavar="FILE", help="a policy file, read on this machine")
    parser.add_argument(
        "--as", dest="shape", default="keys", choices=["keys", "paths", "files", "names"], help="what a key is (default: keys)"
    )
    parser.add_argument(
        "--decode",
        default="none",
        choices=["none", "percent", "form", "base64"],
        help="how keys are encoded (default: %(default)s)",
    )
    parser.add_argument("--prefix", default="", help="the path of the root on the target; lengths of paths count it")
    parser.add_argument("--encoding", metavar="LABEL", help="the encoding of names that are not UTF-8, for suggested names")
    parser.add_argument(
        "--min-severity", default="warn", choices=["warn", "error"], help="`error` leaves warnings out (default: warn)"
    )
    parser.add_argument(
        "--partitions", type=int, metavar="N", help="tasks that check directories (default: by the number of keys and cores)"
    )
    parser.add_argument(
        "--split-directory",
        type=int,
        metavar="NAMES",
        help="cut directories with more names than this, so that several tasks check them (default: none is cut)",
    )
    given = parser.parse_args(arguments)
    config = None
    if given.config is not None:
        with open(given.config, encoding="utf-8") as file:
            config = file.read()
    try:
        policy = Policy(given.profile.split(",") if given.profile else None, config=config)
    except ValueError as error:
        parser.error(str(error))
    spark = SparkSession.builder.appName("namegate").getOrCreate()
    result = scan(
        spark.read.format(given.format).load(given.input),
        key=given.key,
        profiles=policy,
        shape=given.shape,
        decode=given.decode,
        prefix=os.fsencode(given.prefix),
        encoding=given.encoding,
        min_severity=given.min_severity,
        partitions=given.partitions,
        split_directory=given.split_directory,
    )
    # Read three times, computed once.
    rows = result.rows.persist(StorageLevel.DISK_ONLY)
    result = Scan(rows)
    result.findings.write.parquet(f"{given.output}/findings")
    result.summaries.write.parquet(f"{given.output}/summaries")
    print(json.dumps(result.total()))
    rows.unpersist()


if __name__ == "__main__":
    main()
