"""Measures the package in Spark: python spark.py INVENTORY.parquet CORES

One JVM runs as many tasks at a time as it has cores, and each task has a Python process. Writes findings and summaries as Parquet beside
the inventory. Prints one line: names, seconds, seconds of processor time of the JVM and of all Python processes, MiB of the JVM and
of the largest Python process. The start of Spark is not counted. Needs /proc.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import namegate.spark
from pyspark.sql import SparkSession

PROFILES = ["windows", "macos"]


def processes():
    """Of each process its parent, its processor time, and that of its children that have ended: proc_pid_stat(5)."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        used, of_children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        found[int(path.parent.name)] = int(fields[1]), used, of_children
    return found


def used_time(jvm):
    """Seconds of processor time of the JVM and of the processes below it, and the MiB at most of the largest of these."""
    found, below, memory = processes(), {jvm}, 0
    while grown := {process for process, (parent, _, _) in found.items() if parent in below} - below:
        below |= grown
    python = 0
    for process in below - {jvm}:
        python += found[process][1] + found[process][2]
        memory = max(memory, largest(process))
    ticks = os.sysconf("SC_CLK_TCK")
    return found[jvm][1] / ticks, python / ticks, memory


def largest(process):
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:")), 0)


def main():
    path, cores = sys.argv[1:]
    output = f"{path}.spark"
    shutil.rmtree(output, ignore_errors=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.local.dir", os.path.dirname(os.path.abspath(path)))
    spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    jvm = spark.sparkContext._gateway.proc.pid
    # The first job starts what all others use.
    spark.range(1).count()
    begin, before = time.monotonic(), used_time(jvm)
    namegate.spark.scan(spark.read.parquet(path), profiles=PROFILES).rows.write.parquet(output)
    wall, after = time.monotonic() - begin, used_time(jvm)
    names = spark.read.parquet(output).selectExpr("sum(summary.names)").first()[0]
    spent = [new - old for new, old in zip(after[:2], before[:2])]
    print(f"{names} {wall:.2f} {spent[0]:.2f} {spent[1]:.2f} {largest(jvm)} {after[2]}")
    spark.stop()
    shutil.rmtree(output)


if __name__ == "__main__":
    main()
