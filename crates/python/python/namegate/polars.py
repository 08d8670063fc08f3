"""namegate in Polars: importing this module adds a namespace to expressions and series.

    >>> import polars as pl, namegate.polars
    >>> names = pl.DataFrame({"name": ["aux.txt", "report.txt"]})
    >>> names.with_columns(pl.col("name").namegate.check("windows").struct.field("verdict"))
    >>> keys = pl.DataFrame({"key": ["2026/aux.txt", "2026/report.txt"]})
    >>> keys.with_columns(pl.col("key").namegate.check("windows", shape="keys").struct.field("verdict"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as _polars

from . import Policy, check as _check

if TYPE_CHECKING:
    from ._namegate import Profiles, Shape

RESULT = _polars.Struct(
    {
        "verdict": _polars.String,
        "rules": _polars.List(_polars.String),
        "message": _polars.String,
        "repair": _polars.String,
        "repair_confidence": _polars.String,
    }
)


def _checked(items: _polars.Series, policy: Profiles, shape: Shape) -> _polars.Series:
    return _polars.Series(items.name, _check(items, policy, shape=shape), dtype=RESULT)


@_polars.api.register_series_namespace("namegate")
class _Series:
    def __init__(self, series: _polars.Series) -> None:
        self._series = series

    def check(self, profiles: Profiles = None, *, shape: Shape = "names") -> _polars.Series:
        """``namegate.check`` of the names, keys or paths in this series."""
        return _checked(self._series, profiles, shape)


@_polars.api.register_expr_namespace("namegate")
class _Expression:
    def __init__(self, expression: _polars.Expr) -> None:
        self._expression = expression

    def check(self, profiles: Profiles = None, *, shape: Shape = "names") -> _polars.Expr:
        """``namegate.check`` of the names, keys or paths that this expression gives."""
        policy = profiles if isinstance(profiles, Policy) else Policy(profiles)
        return self._expression.map_batches(
            lambda items: _checked(items, policy, shape), return_dtype=RESULT, is_elementwise=True
        )
