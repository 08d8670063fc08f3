"""Lists of every format, made by hand and by mutation, and how Python, pyarrow and DuckDB read them."""
import codecs
import csv
import io
import json
import os
import random

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None
try:
    import duckdb
except ImportError:
    duckdb = None

OPTIONS = {"lines": [], "nul": ["-0"], "csv": ["--list-format", "csv:2"], "csv-header": ["--list-format", "csv:key"], "jsonl": ["--list-format", "jsonl:key"],
           "parquet": ["--list-format", "parquet:key"]}
NAMES = [b"name", b"", b" name ", b"caf\xE9", "café".encode(), b"dir/name", b"a\"b", b"\"quoted\"", b"a,b", b"tab\tname", b"cr\rname", b"line\nname", b"\xEF\xBB\xBFname",
         b"nul\0name", b"\xFF\xFE", b"\xED\xA0\x80", b"back\\slash", b"n" * 300, b"'single'", b"#comment", b"null", b"1e5", b"\x1A", b"\xC2\x85", "a\u2028b".encode()]
PIECES = [b"\"", b"\"\"", b",", b";", b"\n", b"\r\n", b"\r", b"\0", b"\\", b"{", b"}", b"\xFF", b"\\u0000", b"\\ud800", b"\\udc00", b" ", b"\xEF\xBB\xBF", b"x\n"]
COMPRESSIONS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]


def quoted(name):
    return b'"' + name.replace(b'"', b'""') + b'"'


def as_csv(names, header=False, end=b"\r\n"):
    rows = [b"bucket,key"] if header else []
    return end.join(rows + [b"b," + quoted(name) for name in names] + [b""])


def as_json(names, end=b"\n", **more):
    texts = (name.decode(errors="surrogateescape") for name in names)
    return b"".join(json.dumps({"key": text}, **more).encode(errors="surrogateescape") + end for text in texts)


def as_parquet(names, kind=None, **more):
    out = io.BytesIO()
    column = pyarrow.array(names, type=kind or pyarrow.binary())
    pyarrow.parquet.write_table(pyarrow.table({"bucket": pyarrow.array(["b"] * len(names)), "key": column}), out, **more)
    return out.getvalue()


def by_hand():
    for ends in (b"\n", b"\r\n", b"\r", b"\0", b"\n\n", b"\n\r"):
        for last in (b"", ends):
            for form in ("lines", "nul"):
                yield form, f"ends {ends} and {last}", ends.join(NAMES) + last
            rows = [b"bucket,key", b"b,name-1", b'b,"name-2"', b'"b","a, b"', b'b,"a\nb"', b"b,caf\xE9"]
            for form in ("csv", "csv-header"):
                yield form, f"ends {ends} and {last}", ends.join(rows) + last
            yield "jsonl", f"ends {ends} and {last}", as_json([b"name-1", b"caf\xE9", b"a\nb"], ends)
    for mark in (b"\xEF\xBB\xBF", b"\xFF\xFE", b"\xFE\xFF", b"\xEF\xBB\xBF\xEF\xBB\xBF"):
        for form, data in (("lines", b"name-1\nname-2\n"), ("nul", b"name-1\0name-2\0"), ("csv", b"b,name-1\n"), ("csv-header", b"key,b\nname-1,b\n"), ("jsonl", as_json([b"name-1"]))):
            yield form, f"{mark} before it", mark + data
    for rows in (b'b,na"me\n', b'b,"na"me\n', b'b,"na""me"\n', b'b,"name" \n', b'b, "name"\n', b'b,"name\nb,other\n', b'b,"name\n"b",other\n', b"b,name,more\n", b"b\nb,name\n",
                 b"\n\nb,name\n", b"b;name\n", b"b\tname\n", b"b,name\\\nb,other\n", b'b,"na\\"me"\n', b"#b,name\n", b"b,\x00name\n", b"b,name\r\r\nb,other\n", b"b,'a,b'\n", b' b , name \n',
                 b'"b"x,name\n', b'b,"name"\x00\nb,other\n', b"b,name\x1Ab,hidden\nb,other\n"):
        yield "csv", f"rows {rows}", rows
        yield "csv-header", f"rows {rows}", b"bucket,key\n" + rows
    for header in (b"bucket,key,key", b"key,bucket,key", b"bucket,KEY", b"bucket, key", b'bucket,"key"', b"", b"\nbucket,key", b"\xEF\xBB\xBFbucket,key", b'"bucket,key"'):
        yield "csv-header", f"header {header}", header + b"\nname-1,name-2,name-3\n"
    for line in (b'{"key":"name-1","key":"name-2"}', b'{"key":["name-1","name-2"]}', b'{"key":"a\\u0000b"}', b'{"key":"\\ud800x"}', b'{"key":"\\ud83d\\ude00"}', b'[{"key":"name-1"}]',
                 b'{"key":"name-1"}{"key":"name-2"}', b'{"key":"name-1"} x', b'{"key":"tab\tname"}', b'{"key":"name-1",}', b"{'key':'name-1'}", b'{"KEY":"name-1"}', b'{"k\\u0065y":"name-1"}',
                 b'{"key":"name-1","n":NaN}', b'{"key":"name-1","n":1e999}', b'{"key":"name-1","n":' + b"[" * 500 + b"]" * 500 + b"}", b'{"key":12}', b'{"key":null}', b'"key"', b"",
                 b'  {"key":"name-1"}  ', b'{"key":"caf\xE9"}', b'{"key":"\xED\xA0\x80"}', b'{"key":\n"name-1"}', b'{"key":"\x7F\x01name"}', b'{"other":{"key":"inner"},"key":"outer"}',
                 b'{"key":"name-1","caf\xE9":"\xE9"}', b'{"key":"name-1","key":"caf\xE9"}', b'{"key":"caf\xE9","key":"name-2"}'):
        yield "jsonl", f"line {line[:60]}", line + b'\n{"key":"after"}\n'
    if pyarrow is None:
        return
    names = [name for name in NAMES if name] + [None, b"last"]
    texts = [name.decode() for name in NAMES if name and name.isascii()] + [None]
    for compression in COMPRESSIONS:
        yield "parquet", f"compression {compression}", as_parquet(names, compression=compression)
    for what, more in {"no dictionary": {"use_dictionary": False}, "version 1": {"version": "1.0"}, "pages of version 2": {"data_page_version": "2.0"},
                       "small groups": {"row_group_size": 2}, "small pages": {"data_page_size": 1, "use_dictionary": False}, "checksums": {"write_page_checksum": True},
                       "delta lengths": {"use_dictionary": False, "column_encoding": {"key": "DELTA_LENGTH_BYTE_ARRAY"}},
                       "delta strings": {"use_dictionary": False, "column_encoding": {"key": "DELTA_BYTE_ARRAY"}}}.items():
        yield "parquet", what, as_parquet(names, **more)
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())):
        yield "parquet", f"type {kind}", as_parquet(texts, kind)
    yield "parquet", "type large_binary", as_parquet(names, pyarrow.large_binary())
    yield "parquet", "names of one length", as_parquet([b"abcd", b"\xFF\xFE\xFD\xFC"], pyarrow.binary(4))
    yield "parquet", "a list of names", as_parquet([["name-1", "name-2"]], pyarrow.list_(pyarrow.string()))
    twice = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays([["name-1"], ["name-2"]], ["key", "key"]), twice)
    yield "parquet", "two columns of one name", twice.getvalue()
    yield "parquet", "numbers", as_parquet([100, 200], pyarrow.int32())


def mutant(rng):
    names = [rng.choice(NAMES) or b"-" for _ in range(rng.randint(1, 6))]
    form = rng.choice([form for form in OPTIONS if form != "parquet" or pyarrow])
    match form:
        case "lines" | "nul":
            data = (b"\0" if form == "nul" else b"\n").join(names)
        case "csv" | "csv-header":
            data = as_csv(names, form == "csv-header", rng.choice([b"\n", b"\r\n"]))
        case "jsonl":
            data = as_json(names, ensure_ascii=rng.random() < 0.5)
        case _:
            more = {"use_dictionary": rng.random() < 0.5, "data_page_version": rng.choice(["1.0", "2.0"]), "compression": rng.choice(COMPRESSIONS), "row_group_size": rng.randint(1, 9)}
            data = as_parquet(names, **more)
    data = bytearray(data)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(3):
            case 0:
                data[at:at + rng.randint(0, 4)] = rng.choice(PIECES)
            case 1:
                data[at:at] = rng.choice(PIECES)
            case _:
                del data[at:at + rng.randint(1, 5)]
    return form, bytes(data)


def by_line(path):
    with open(path, "rb") as file:
        return set(file.read().removeprefix(codecs.BOM_UTF8).split(b"\n"))


def by_nul(path):
    with open(path, "rb") as file:
        return set(file.read().split(b"\0"))


def text_of(path):
    with open(path, "rb") as file:
        return file.read().removeprefix(codecs.BOM_UTF8).decode("latin-1")


def by_csv(path):
    found = set()
    try:
        for row in csv.reader(io.StringIO(text_of(path), newline="")):
            if len(row) > 1:
                found.add(row[1].encode("latin-1"))
    except csv.Error:
        pass
    return found


def by_csv_header(path):
    found = set()
    try:
        for row in csv.DictReader(io.StringIO(text_of(path), newline="")):
            if row.get("key") is not None:
                found.add(row["key"].encode("latin-1"))
    except csv.Error:
        pass
    return found


def by_json(path):
    found = set()
    with open(path, "rb") as file:
        for line in file.read().removeprefix(codecs.BOM_UTF8).split(b"\n"):
            try:
                value = json.loads(line.decode(errors="surrogateescape"))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and isinstance(value.get("key"), str):
                text = value["key"]
                try:
                    found.add(text.encode(errors="surrogateescape"))
                except UnicodeEncodeError:
                    found.add(text.encode(errors="surrogatepass"))
    return found


def as_bytes(value):
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


def by_pyarrow(path):
    try:
        column = pyarrow.parquet.read_table(path, columns=["key"], use_threads=False).column("key").to_pylist()
    except Exception:  # noqa: BLE001: whatever a damaged file makes it raise
        return set()
    return {as_bytes(value) for value in column if isinstance(value, (str, bytes))}


def by_duckdb(path):
    try:
        with duckdb.connect() as connection:
            rows = connection.execute("SELECT key FROM read_parquet(?)", [path]).fetchall()
    except Exception:  # noqa: BLE001: whatever a damaged file makes it raise
        return set()
    return {as_bytes(value) for value, in rows if isinstance(value, (str, bytes))}


def peers():
    for form, read in (("lines", by_line), ("nul", by_nul), ("csv", by_csv), ("csv-header", by_csv_header), ("jsonl", by_json)):
        yield form, {"Python": read}
    yield "parquet", {"pyarrow": by_pyarrow} if pyarrow else "pyarrow"
    # Without pyarrow no such list is made.
    yield "parquet", {"DuckDB": by_duckdb} if pyarrow and duckdb else "DuckDB"


def by_hand_and_mutation(rng, mutants):
    yield from by_hand()
    for number in mutants:
        form, data = mutant(random.Random(rng.random()))
        yield form, f"mutant {number}", data


def write(data, directory, form):
    path = os.path.join(directory, "list")
    with open(path, "wb") as file:
        file.write(data)
    return path, ["--list", path, "--list-as", "names", *OPTIONS[form]]


def scans(_form):
    return [[]]


def plain(name):
    return name


def known(checked):
    # A byte that is not UTF-8 is an escape in JSON of Python (PEP 383), and the surrogate that it names is checked.
    return checked | {name.replace(b"\xED\xB3\xA9", b"\xE9") for name in checked}


def is_name(_name):
    return True
