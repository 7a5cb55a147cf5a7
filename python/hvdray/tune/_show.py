# SPDX-License-Identifier: Apache-2.0
"""`hvdray tune show`: what a study has, also of another program or while it runs. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable, Optional

from .._errors import nearest
from ._shown import HOW, best_lines, best_of, document, print_json, ranked, table
from ._errors import SpecError, TuneError
from ._sqlite import SQLITE
from ._study import open_storage, shown_url, storage_errors  # before Optuna: it tells what to install

import optuna  # isort: skip


def show(storage: str, name: Optional[str], plots: Optional[str], wants_json: bool) -> int:
    """Returns an exit code. Raises TuneError."""
    url = _url_of(storage)
    study = _study(url, name)
    with storage_errors(url):
        best = best_of(study)
        if wants_json:
            print_json(document(study))
        else:
            trials = [trial for trial in study.get_trials(deepcopy=False) if "hvdray:again" not in trial.user_attrs]
            print("\n".join(table(ranked(trials, study), _metric(study))))
            if best is not None:
                print(best_lines(study, best), end="")
        if plots is not None:
            _plot(study, os.path.expanduser(plots))
    return 0 if best is not None else 1


def _url_of(storage: str) -> str:
    """Of a file, the directory of a search, or a URL."""
    if storage.startswith(SQLITE):
        storage = storage[len(SQLITE) :].partition("?")[0]  # Of a file that is not there it would make one.
    elif "://" in storage:
        return storage
    storage = os.path.expanduser(storage)
    path = os.path.join(storage, "study.db") if os.path.isdir(storage) else storage
    if not os.path.isfile(path):
        raise SpecError(f"no such file: {path}", hint="hvdray tune show search.tune/study.db")
    return SQLITE + os.path.abspath(path)


def _study(url: str, name: Optional[str]) -> Any:
    storage = open_storage(url, makes_tables=False)
    with storage_errors(url):
        names = optuna.get_all_study_names(storage)
        if not names:
            raise SpecError(f"{shown_url(url)} has no study")
        if name is None and len(names) > 1:
            raise SpecError(f"{shown_url(url)} has {len(names)} studies", hint=f"--study NAME: {', '.join(names)}")
        if name is not None and name not in names:
            raise SpecError(f"{shown_url(url)} has no study {name!r}{nearest(name, names)}", hint=f"it has {', '.join(names)}")
        study = optuna.load_study(study_name=name or names[0], storage=storage)
        if len(study.directions) > 1:
            raise SpecError(f"the study {study.study_name!r} has {len(study.directions)} objectives: show is for one")
        return study


def _metric(study: Any) -> str:
    return str(study.user_attrs.get(HOW, {}).get("metric", "value"))


def _plot(study: Any, directory: str) -> None:
    save = _saver()
    try:
        os.makedirs(directory, exist_ok=True)
        for name, plot in (("history", "plot_optimization_history"), ("importance", "plot_param_importances")):
            try:
                path = save(plot, study, os.path.join(directory, name))
            except (ValueError, RuntimeError) as error:  # of Optuna: too few trials
                print(f"hvdray tune: no plot {name}: {error}", file=sys.stderr)
            else:
                print(f"wrote {path}", file=sys.stderr)
    except OSError as error:
        raise TuneError(f"can't write plots to {directory}: {error.strerror}") from None


def _freed(path: str) -> str:
    """Where others may write, one of them may have put a link in the place of a plot. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return path


def _saver() -> Callable[[str, Any, str], str]:
    """Of a plot of Optuna's into a file, whose path it returns. Raises TuneError."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from optuna.visualization import matplotlib as drawn

        def save(plot: str, study: Any, path: str) -> str:
            figure = getattr(drawn, plot)(study, target_name=_metric(study)).figure
            figure.savefig(_freed(path + ".svg"), bbox_inches="tight")
            return path + ".svg"

        return save
    except ImportError:
        pass
    if not optuna.visualization.is_available():
        raise TuneError("plots need matplotlib or plotly", hint="pip install matplotlib")

    def write(plot: str, study: Any, path: str) -> str:
        getattr(optuna.visualization, plot)(study, target_name=_metric(study)).write_html(_freed(path + ".html"))
        return path + ".html"

    return write
