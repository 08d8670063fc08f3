"""The compiled part of the package."""

from collections.abc import Sequence
from typing import Literal, Protocol, final

__version__: str

class ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

Column = ArrowArray | ArrowStream
"""Binary or string data in any layout of Arrow, or a table of one such column. Strings need not be valid UTF-8."""

Shape = Literal["keys", "paths", "files", "names"]
"""What an item of a list is: the key of an object, where each component counts; a path as a file system reads it, where
``a//b`` and ``./a/b`` are ``a/b``; or one name, of which a ``/`` is part."""

Decoding = Literal["none", "percent", "form", "base64"]
"""How keys are encoded: ``percent`` as in RFC 3986, ``form`` with ``+`` for a space besides, as in the CSV files of S3
Inventory."""

@final
class Policy:
    """The rules that names are checked by.

    Args:
        profiles: One profile or several, by name. By default those of ``config``, or ``strict``.
        config: A policy file, as text (TOML; ``namegate config`` describes it).

    Raises:
        ValueError: A profile is unknown, or the configuration is invalid.
    """

    def __new__(cls, profiles: str | Sequence[str] | None = None, *, config: str | None = None) -> Policy: ...
    @property
    def profiles(self) -> list[str]: ...

Profiles = Policy | str | Sequence[str] | None

@final
class CheckedNames:
    """One struct for each item: ``verdict`` (``accept``, ``warn``, ``reject``; ``fault`` if the item has more than 65,536
    bytes, or more than 1,024 components, or 1,048,576 bytes times components), ``rules`` (a list), ``message``, ``repair`` and ``repair_confidence``. All are null
    where the item is."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Pairs:
    """Record batches of ``parent``, ``name``, ``fault`` and ``entry``, made while they are read. They can be read once."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Findings:
    """Record batches of findings, one row for each violation, made while they are read. They can be read once."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def summary(self, task: str = "") -> Summary:
        """What was counted, and what names were checked with.

        Args:
            task: Identifies the task among those of a job.

        Raises:
            RuntimeError: The findings have not been read to their end.
        """

@final
class Summary:
    """A record batch of one row. Only rows with equal ``policy``, ``unicode``, ``namegate`` and ``min_severity`` can be added up."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def check(names: Column, profiles: Profiles = None, *, shape: Shape = "names") -> CheckedNames:
    """Checks each name, key or path by itself.

    Of a key or a path each name is checked, and the length of the whole: the verdict is that of the worst one, ``message`` says
    which it is, and ``repair`` is the whole with its suggested names. Nothing is compared with other rows: there are no
    collisions, and a suggested name can be in use. ``scan`` compares.

    Args:
        names: The column.
        profiles: The policy; ``strict`` by default.
        shape: What an item is. A ``/`` is an error in a name; a column of names with many of them gives a warning, because
            they are probably keys or paths.

    Raises:
        TypeError: The column has neither bytes nor text.
        ValueError: A profile or the shape is unknown.
    """

def pairs(keys: Column, *, shape: Shape = "keys", decode: Decoding = "none") -> Pairs:
    """Splits keys into pairs of a parent and a name: for the name of a key, and for each directory above it.

    A pair can occur several times, also in several tasks. A key that is null, longer than 65,536 bytes, deeper than 1,024
    levels or not encoded as ``decode`` says has ``fault`` set: pass it on, so that it is reported. ``entry`` is ``file`` or
    ``directory``, or null: ``shape="paths"`` does not say of the last name of a path what it is, ``shape="files"`` does.
    """

def check_directories(
    pairs: ArrowStream | ArrowArray,
    profiles: Profiles = None,
    *,
    prefix: bytes | None = None,
    encoding: str | None = None,
    min_severity: Literal["warn", "error"] = "warn",
    memory: int | None = None,
) -> Findings:
    """Checks whole directories: all pairs with the same parent must be in ``pairs``.

    Args:
        pairs: Record batches with the columns ``parent`` and ``name``, and ``fault`` and ``entry`` if there are any. All are read at once.
        profiles: The policy; ``strict`` by default.
        prefix: The path of the root on the target; lengths of paths count it.
        encoding: The encoding of names that are not UTF-8, for suggested names; by default it is guessed for each directory.
        min_severity: ``error`` leaves warnings out.
        memory: Bytes of names to keep in memory (256 MiB by default); more go to files without a name in ``$TMPDIR``.

    Raises:
        TypeError: The columns are missing or of another type.
        OSError: The temporary files cannot be written.
    """


@final
class Batches:
    """Record batches. They can be read once."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def number_names(
    pairs: ArrowStream | ArrowArray, profiles: Profiles = None, *, prefix: bytes | None = None
) -> Batches:
    """Numbers the names of directories that are cut: ``parent``, ``name``, ``number``, ``suspect`` and ``first``, one row for each
    number of a name. Names that collide share a number. Any number of processes can do this, each with a part of a directory."""

def find_candidates(
    numbered: ArrowStream | ArrowArray,
    profiles: Profiles = None,
    *,
    prefix: bytes | None = None,
    encoding: str | None = None,
    min_severity: Literal["warn", "error"] = "warn",
    memory: int | None = None,
    task: str = "",
) -> tuple[Batches, Summary]:
    """Finds the names that may have findings: all rows with the same ``number`` must be in ``numbered``.

    Returns:
        Rows of ``parent``, ``kind`` (``candidate``, or ``directory`` without a name), ``name`` and ``number`` (null), some several times; and a summary that counts
        the names. The parameters are those of ``check_directories``.
    """

def wanted_numbers(
    candidates: ArrowStream | ArrowArray,
    profiles: Profiles = None,
    *,
    prefix: bytes | None = None,
    encoding: str | None = None,
    min_severity: Literal["warn", "error"] = "warn",
    memory: int | None = None,
) -> Batches:
    """Gives the numbers by which suggested names must be compared with names that are not in ``candidates``, as rows of the kind ``known``.

    All rows of a directory must be in ``candidates``. Add these rows to them, and all names with these numbers as rows of the kind
    ``occupant``; then ask again.
    """

def check_candidates(
    candidates: ArrowStream | ArrowArray,
    profiles: Profiles = None,
    *,
    prefix: bytes | None = None,
    encoding: str | None = None,
    min_severity: Literal["warn", "error"] = "warn",
    memory: int | None = None,
) -> Findings:
    """Checks cut directories: all rows of a directory must be in ``candidates``, and no number may be wanted.

    The findings are those of ``check_directories``. Names are counted by ``find_candidates``.

    Raises:
        RuntimeError: A number is wanted; raised while the findings are read.
    """
