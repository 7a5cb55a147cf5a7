# SPDX-License-Identifier: Apache-2.0
"""A rank's part of a data set that the trainer was given. Pure: what goes where depends on numbers of rows and ranks alone."""

from __future__ import annotations

import importlib
import operator
from typing import Any, Callable, Iterator, Mapping, Optional


def bounds(rows: int, rank: int, size: int, equal: bool = True) -> tuple[int, int]:
    """The first row of a rank and the first one behind its part. `equal`: ⌊rows/size⌋ for each, the rest of the rows is nobody's;
    else every row is somebody's, and parts differ by one at most."""
    if equal:
        return rank * (rows // size), (rank + 1) * (rows // size)
    return rank * rows // size, (rank + 1) * rows // size


def check_datasets(datasets: Any) -> dict[str, Any]:
    """Raises TypeError."""
    if datasets is None:
        return {}
    if not isinstance(datasets, Mapping):
        raise TypeError(f"datasets must be a dict of data sets by name, not {type(datasets).__name__}")
    for name, rows in datasets.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a data set must be a text, not {name!r}")
        if not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__") or isinstance(rows, (str, bytes, Mapping)):
            raise TypeError(f"datasets[{name!r}] is a {type(rows).__name__}: it must be a list, an array, a frame, or have len() and [i]")
    return dict(datasets)


class Shard:
    """Rows in their order. Of frames, and of lists of dicts, a batch is a dict of arrays; of arrays, an array; else a list."""

    def __init__(self, rows: Any, rank: int, size: int, equal: bool = True):
        self._rows = rows
        self._begin, self._end = bounds(len(rows), rank, size, equal)

    def __len__(self) -> int:
        return self._end - self._begin

    def __iter__(self) -> Iterator[Any]:
        return self.iter_rows()

    def iter_rows(self) -> Iterator[Any]:
        """Of frames: a dict each."""
        if self._is_frame:
            for record in self._rows.iloc[self._begin : self._end].to_dict("records"):
                yield record
            return
        rows = getattr(self._rows, "iloc", self._rows)  # of a series: by position
        for at in range(self._begin, self._end):
            yield rows[at]

    def iter_batches(self, *, batch_size: int = 256, drop_last: bool = False) -> Iterator[Any]:
        """As many for each rank, unless the shard is `equal=False`. `drop_last`: without a last one that is smaller."""
        if not hasattr(batch_size, "__index__") or batch_size < 1:
            raise ValueError(f"batch_size must be a number from 1, not {batch_size!r}")
        batch_size = operator.index(batch_size)  # of NumPy: its sums wrap
        for at in range(self._begin, self._end, batch_size):
            end = min(at + batch_size, self._end)
            if end - at == batch_size or not drop_last:
                yield self._batch(at, end)

    def iter_torch_batches(
        self,
        *,
        batch_size: int = 256,
        drop_last: bool = False,
        device: Any = None,
        dtypes: Any = None,
        collate_fn: Optional[Callable[[Any], Any]] = None,
    ) -> Iterator[Any]:
        """Batches of tensors. `dtypes`: one, or by column. `collate_fn`: makes them of a batch instead; needed for rows that are
        neither numbers, arrays, tensors nor tuples or dicts of them."""
        torch: Any = importlib.import_module("torch")
        for batch in self.iter_batches(batch_size=batch_size, drop_last=drop_last):
            if collate_fn is not None:
                yield collate_fn(batch)
            elif isinstance(batch, list):
                yield _moved(torch.utils.data.default_collate(batch), device, dtypes)
            elif isinstance(batch, dict):
                yield {
                    key: torch.as_tensor(part, dtype=dtypes.get(key) if isinstance(dtypes, dict) else dtypes, device=device)
                    for key, part in batch.items()
                }
            else:
                yield torch.as_tensor(batch, dtype=dtypes, device=device)

    @property
    def _is_frame(self) -> bool:
        return hasattr(self._rows, "iloc") and hasattr(self._rows, "columns")

    def _batch(self, begin: int, end: int) -> Any:
        rows = self._rows
        if self._is_frame:
            return {str(column): rows[column].iloc[begin:end].to_numpy() for column in rows.columns}
        if hasattr(rows, "iloc"):  # a series
            return rows.iloc[begin:end].to_numpy()
        if hasattr(rows, "shape"):
            return rows[begin:end]
        batch = [rows[at] for at in range(begin, end)]
        if batch and all(isinstance(row, dict) for row in batch):
            numpy: Any = importlib.import_module("numpy")
            return {key: numpy.asarray([row[key] for row in batch]) for key in batch[0]}
        return batch


def _moved(value: Any, device: Any, dtype: Any) -> Any:
    if isinstance(value, dict):
        return {key: _moved(part, device, dtype.get(key) if isinstance(dtype, dict) else dtype) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(part, device, dtype) for part in value)
    return value.to(device=device, dtype=dtype) if hasattr(value, "to") else value
