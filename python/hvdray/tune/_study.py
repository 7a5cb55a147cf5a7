# SPDX-License-Identifier: Apache-2.0
"""The study of a search: Optuna's search, pruning and storage, and which of its trials are whose. Knows no slots."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import math
import os
import random
import re
import sys
import time
import uuid
import warnings
from typing import Any, Iterator, Optional, Sequence

from .._errors import HvdrayError, nearest
from .._process import is_living, sign_of_life
from ._errors import INSTALL, Path, SpecError, TuneError
from ._spec import Parameter, Search
from ._sqlite import SQLITE, begin_log, end_log, local_file, on_connect
from ._trial import CHECKPOINT

try:
    import optuna
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError
except ImportError as error:
    if error.name != "optuna":
        raise
    raise TuneError(f"{sys.executable} has no Optuna", hint=INSTALL) from None

if not str(optuna.__version__).startswith("5."):
    raise TuneError(f"a search works with Optuna 5, tested is 5.0.0; this is {optuna.__version__}", hint=INSTALL)

ALIVE_S = 20.0
DATABASES = ("sqlite", "postgresql", "mysql")
MAX_TRIES = 20
_THERE = re.compile("already exists|duplicate|unique", re.IGNORECASE)  # what a database says of a table or row that is there
# Attributes of studies and trials.
SEARCH, DIRECTORY, GRID, AGAIN, WHY, METRICS = (f"hvdray:{name}" for name in ("search", "directory", "grid", "again", "why", "metrics"))
SURPLUS = "surplus"
_OTHER = {"sampler": ("BaseSampler", "BaseGASampler", "GridSampler", "PartialFixedSampler"), "pruner": ("BasePruner", "PatientPruner")}

FAIL, PRUNED, COMPLETE = optuna.trial.TrialState.FAIL, optuna.trial.TrialState.PRUNED, optuna.trial.TrialState.COMPLETE
RUNNING, WAITING = optuna.trial.TrialState.RUNNING, optuna.trial.TrialState.WAITING
Frozen = Any  # FrozenTrial of Optuna


@contextlib.contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """What a storage raises, as one line."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause: Any = error.__cause__ or error
        text = str(getattr(cause, "orig", None) or cause).strip().splitlines()[0]
        hint = "make room, then go on with --resume" if "full" in text or "disk" in text else ""
        raise TuneError(f"the storage {shown_url(url)}: {text}", hint=hint) from error


@contextlib.contextmanager
def optuna_errors(what: str, path: Path) -> Iterator[None]:
    """What a sampler or pruner raises, whatever it is, as one line; but for what a storage raises."""
    try:
        yield
    except (HvdrayError, SQLAlchemyError, optuna.exceptions.StorageInternalError):
        raise
    except ImportError as error:
        raise _lacking(what, path, error) from None
    except Exception as error:
        raise SpecError(f"{what}: {str(error) or type(error).__name__}", path=path) from error


def shown_url(url: str) -> str:
    """Without its password."""
    head, at, host = url.rpartition("@")
    scheme, colon, user = head.partition("://")
    return f"{scheme}{colon}{user.partition(':')[0]}@{host}" if at and colon else url


def open_storage(url: str, makes_tables: bool = True) -> Any:
    """Raises TuneError."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    arguments: dict[str, Any] = {"pool_pre_ping": True}
    if url.startswith("sqlite"):
        arguments = {"connect_args": {"timeout": 60}, "pool_events": [(on_connect, "connect")]}
    try:
        make_url(url).get_dialect()
        with storage_errors(url):
            return _storage(url, engine_kwargs=arguments, skip_table_creation=not makes_tables)
    except ImportError as error:
        raise _lacking(f"the storage {shown_url(url)}", ("storage",), error) from None
    except HvdrayError:
        raise
    except NoSuchModuleError:
        kind = url.partition(":")[0]
        raise SpecError(f"the storage {shown_url(url)}: no database is {kind!r}{nearest(kind, DATABASES)}", path=("storage",)) from None
    except Exception as error:
        raise TuneError(f"the storage {shown_url(url)}: {error}") from error


def _storage(url: str, **arguments: Any) -> Any:
    """Searches that begin at the same moment make the tables at the same moment: who comes second finds more of them each time."""
    for tries in itertools.count(1):
        try:
            return optuna.storages.RDBStorage(url, **arguments)
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if tries == MAX_TRIES or not _THERE.search(str(error.__cause__ or error)):
                raise
            time.sleep(random.uniform(0.01, 0.1) * tries)
    raise AssertionError


def make(kind: str, name: str, arguments: dict[str, Any]) -> Any:
    """A sampler or pruner, by Optuna's name and arguments. Raises SpecError."""
    home, end = getattr(optuna, kind + "s"), kind.capitalize()
    classes = {_short(c): c for c in dir(home) if c.endswith(end) and c not in _OTHER[kind]}
    found = classes.get(_short(name + end))
    names = sorted(short.replace(end.lower(), "") for short in classes)
    if found is None:
        raise SpecError(f"{kind}: Optuna has no {name!r}{nearest(name, names)}", hint=f"one of {', '.join(names)}", path=(kind,))
    cls = getattr(home, found)
    known = [p for p in inspect.signature(cls).parameters]
    for key in arguments:
        if key not in known:
            raise SpecError(f"{kind}: {found} has no argument {key!r}{nearest(key, known)}", hint=f"it has {', '.join(known)}",
                            path=(kind, name, key))
    with optuna_errors(f"{kind}: {found}", (kind, name)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**arguments)


def _lacking(what: str, path: Path, error: ImportError) -> SpecError:
    """Optuna wraps the error that has the name of the module."""
    inner: Any = error
    while inner is not None and not getattr(inner, "name", None):
        inner = inner.__cause__ or inner.__context__
    if inner is None:
        return SpecError(f"{what}: {error}", path=path)
    name = str(inner.name).partition(".")[0]
    return SpecError(f"{what} needs the package {name}", hint=f"pip install {name}", path=path)


def _short(name: str) -> str:
    return name.lower().replace("_", "").replace("iii", "3").replace("ii", "2")


def distribution(parameter: Parameter) -> Any:
    """Raises SpecError."""
    if parameter.kind == "float":
        with optuna_errors(f"space.{parameter.name}", ("space", parameter.name)):
            return optuna.distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)
    if parameter.kind == "int":
        step = 1 if parameter.step is None else int(parameter.step)
        return optuna.distributions.IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=step)
    return optuna.distributions.CategoricalDistribution(parameter.values)


class Book:
    """One process's part of a study. On one thread."""

    def __init__(self, search: Search, url: str, resume: bool):
        """Raises TuneError."""
        self._search = search
        self._url = url
        self._id = uuid.uuid4().hex
        self._space = {parameter.name: distribution(parameter) for parameter in search.space}
        self._told_alive = -math.inf
        self._is_exhausted = False
        for kind, chosen in (("sampler", search.sampler), ("pruner", search.pruner)):
            make(kind, *chosen)  # before anything is kept
        self._file = local_file(url)
        if self._file is not None:
            begin_log(self._file)
        self._storage = open_storage(url)
        with storage_errors(url):
            self.study, is_new = self._open(self._storage, resume)
            self.study.set_user_attr("hvdray:how", search.how())
            self.tell_alive()
            self._make_tools(is_new)
            self._enqueue_grid(is_new)

    def close(self) -> None:
        """The study can still be read."""
        self._storage.remove_session()
        self._storage.engine.dispose()
        if self._file is not None:
            end_log(self._file)

    def _open(self, storage: Any, resume: bool) -> tuple[Any, bool]:
        search = self._search
        try:
            study = optuna.create_study(storage=storage, study_name=search.study, direction=search.direction)
            study.set_user_attr("hvdray:spec", self._spec())
            return study, True
        except optuna.exceptions.DuplicatedStudyError:
            if not resume:
                raise TuneError(f"the study {search.study!r} is already in {shown_url(self._url)}",
                                hint="--resume goes on with it; another name (study:) or output begins a new one") from None
        study = optuna.load_study(study_name=search.study, storage=storage)
        was, now = study.user_attrs.get("hvdray:spec"), self._spec()
        if was is None:
            study.set_user_attr("hvdray:spec", now)  # A kill came first, or the study is of another program.
            was = now
        for key, value in now.items():
            if was.get(key) != value:
                raise TuneError(f"{key} is not as the study {search.study!r} has it",
                                hint=f"it was {json.dumps(was.get(key))}; another name (study:) or output begins a new one")
        if study.direction.name.lower() != search.direction:
            raise TuneError(f"direction is not as the study {search.study!r} has it")
        return study, False

    def _spec(self) -> dict[str, Any]:
        space = {p.name: optuna.distributions.distribution_to_json(self._space[p.name]) for p in self._search.space}
        return {"space": space, "metric": self._search.metric, "direction": self._search.direction}

    def _make_tools(self, is_new: bool) -> None:
        """What the next release of Optuna may decide otherwise is written down."""
        name, arguments = self._search.sampler
        arguments = dict(arguments)
        if _short(name) == "tpe":
            kept = {} if is_new else self.study.user_attrs.get("hvdray:tpe", {})
            defaults = {key: p.default for key, p in inspect.signature(optuna.samplers.TPESampler).parameters.items()}
            is_joint = defaults["multivariate"] is not False  # None: for one objective, yes
            for key, value in {"multivariate": is_joint, "constant_liar": defaults["constant_liar"], **kept}.items():
                arguments.setdefault(key, value)
            self.study.set_user_attr("hvdray:tpe", {key: arguments[key] for key in ("multivariate", "constant_liar")})
        if isinstance(arguments.get("seed"), int):
            arguments["seed"] += len(self.study.get_trials(deepcopy=False))  # else a resumed search asks for the same again
        self.study.sampler = make("sampler", name, arguments)
        self.study.pruner = make("pruner", *self._search.pruner)

    def _enqueue_grid(self, is_new: bool) -> None:
        points = self._search.grid()
        if not is_new and (not points or self._others_live()):
            return
        there = {trial.user_attrs.get(GRID) for trial in self.trials()}
        for at, point in enumerate(points[: self._search.trials]):
            if at not in there:
                self.study.enqueue_trial(point, user_attrs={GRID: at})

    # ---- trials

    def trials(self, states: Optional[Sequence[Any]] = None) -> list[Frozen]:
        with storage_errors(self._url):
            found: list[Frozen] = self.study.get_trials(deepcopy=False, states=states)
            return found

    def counted(self) -> list[Frozen]:
        """Without those that wait, and those that were cut short and are done again."""
        return [trial for trial in self.trials() if trial.state != WAITING and AGAIN not in trial.user_attrs]

    def next(self) -> Optional[Any]:
        """A trial to run; None: there are enough."""
        with storage_errors(self._url):
            while not self._is_exhausted and len(self.counted()) < self._search.trials:
                with self._sampler_errors():
                    trial = self.study.ask(self._space)
                others = [other for other in self.trials() if AGAIN not in other.user_attrs]
                # One that waits and is older came while we asked: it takes the place of what another search has lost.
                before = [other for other in others if other.state.is_finished() or other.number < trial.number]
                if len(before) < self._search.trials:
                    trial.set_user_attr(SEARCH, self._id)
                    return trial
                self._cut_short(trial.number, SURPLUS)  # Another machine was first.
                if not any(other.state == WAITING for other in before):
                    return None
            return None

    def _sampler_errors(self) -> Any:
        return optuna_errors(f"sampler: {self._search.sampler[0]}", ("sampler",))

    def report(self, trial: Any, value: float, step: int) -> bool:
        """False: the trial is ours no more, because we were held to be dead."""
        with storage_errors(self._url):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of a step that comes twice: the first counts
                    trial.report(value, step)
            except optuna.exceptions.UpdateFinishedTrialError:
                return False
            return True

    def last_step(self, trial: Any) -> int:
        """Of an earlier attempt; -1: there is none."""
        with storage_errors(self._url):
            step = self.study._storage.get_trial(trial._trial_id).last_step
            return -1 if step is None else int(step)

    def should_prune(self, trial: Any) -> bool:
        with storage_errors(self._url), optuna_errors(f"pruner: {self._search.pruner[0]}", ("pruner",)):
            return bool(trial.should_prune())

    def note(self, number: int, **attributes: Any) -> None:
        """On a trial that runs."""
        with storage_errors(self._url), contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            for name, told in attributes.items():
                if told:
                    self.study._storage.set_trial_user_attr(self._trial_id(number), f"hvdray:{name}", told)

    def finish(self, number: int, state: Any, value: Optional[float] = None, **attributes: Any) -> None:
        self.note(number, **attributes)
        with storage_errors(self._url), self._sampler_errors():
            # Optuna's own is for its loop. Who calls it here is a sampler that has nothing left.
            self.study.stop = lambda: setattr(self, "_is_exhausted", True)
            try:
                self.study.tell(number, value, state=state, skip_if_finished=True)
            finally:
                del self.study.stop

    def requeue(self, number: int) -> None:
        """It was cut short: it is told FAIL, and its point waits again, with its reports if it has a checkpoint to go on from."""
        with storage_errors(self._url):
            if self._cut_short(number, self._id):
                self._again(self.trials()[number])

    def _cut_short(self, number: int, by: str) -> bool:
        """Only one of several searches that try does it."""
        trial_id = self._trial_id(number)
        storage = self.study._storage
        try:
            storage.set_trial_user_attr(trial_id, AGAIN, by)
            return bool(storage.set_trial_state_values(trial_id, FAIL))
        except optuna.exceptions.UpdateFinishedTrialError:
            return False

    def _again(self, trial: Frozen) -> bool:
        """False: it had no parameters yet."""
        fixed = {name: value for name, value in trial.system_attrs.items() if name == "fixed_params"}
        if not trial.params and not fixed:
            return False
        kept = {name: value for name, value in trial.user_attrs.items() if name in (GRID, DIRECTORY)}
        history = [*trial.system_attrs.get("retry_history", []), trial.number]
        checkpoint = os.path.join(kept.get(DIRECTORY, "/dev/null"), CHECKPOINT)
        goes_on = os.path.isdir(checkpoint) or os.path.isdir(checkpoint + ".old")
        self.study.add_trial(optuna.create_trial(
            state=WAITING, params=trial.params, distributions=trial.distributions, user_attrs=kept,
            system_attrs={**fixed, "failed_trial": history[0], "retry_history": history},
            intermediate_values=trial.intermediate_values if goes_on else None,
        ))
        return True

    def _trial_id(self, number: int) -> int:
        return int(self.study._storage.get_trial_id_from_study_id_trial_number(self.study._study_id, number))

    # ---- other searches of this study

    def tell_alive(self) -> bool:
        """Now and then; False: not now."""
        now = time.monotonic()  # The clock may be set back.
        if now - self._told_alive < ALIVE_S:
            return False
        self._told_alive = now
        with storage_errors(self._url):
            self.study.set_user_attr(f"{SEARCH}:{self._id}", sign_of_life())
        return True

    def take_over(self) -> list[int]:
        """Requeues what dead searches have left, and returns its numbers."""
        with storage_errors(self._url):
            mine = sign_of_life()
            searches = self.study.user_attrs
            taken = []
            for trial in self.trials((RUNNING,)):
                owner = trial.user_attrs.get(SEARCH)
                if owner == self._id:
                    continue
                told = searches.get(f"{SEARCH}:{owner}")
                is_dead = not is_living(told, mine) if told is not None else not self._others_live()
                if is_dead and self._cut_short(trial.number, self._id):
                    self._again(self.trials()[trial.number])
                    taken.append(trial.number)
            done_again = {number for trial in self.trials() for number in trial.system_attrs.get("retry_history", [])}
            for trial in self.trials((FAIL,)):  # It was cut short by a search that died before the point waited again.
                by = trial.user_attrs.get(AGAIN)
                if by in (None, SURPLUS, self._id) or trial.number in done_again or is_living(searches.get(f"{SEARCH}:{by}"), mine):
                    continue
                if self._again(trial):
                    taken.append(trial.number)
            return taken

    def _others_live(self) -> bool:
        mine = sign_of_life()
        return any(name.startswith(SEARCH + ":") and not name.endswith(self._id) and is_living(told, mine)
                   for name, told in self.study.user_attrs.items())
