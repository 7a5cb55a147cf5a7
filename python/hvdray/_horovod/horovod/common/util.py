# SPDX-License-Identifier: Apache-2.0
import contextlib
import os

from hvdray.torch.basics import ccl_built as ccl_built
from hvdray.torch.basics import ddl_built as ddl_built
from hvdray.torch.basics import gloo_built as gloo_built
from hvdray.torch.basics import mpi_built as mpi_built
from hvdray.torch.basics import nccl_built as nccl_built


def extension_available(ext_base_name, verbose=False):
    return ext_base_name == "torch"


def gpu_available(ext_base_name, verbose=False):
    import torch

    return ext_base_name == "torch" and torch.cuda.is_available()


def split_list(items, count):
    """`count` pieces, as long as each other or one longer."""
    size, more = divmod(len(items), count)
    cuts = [index * size + min(index, more) for index in range(count + 1)]
    return [items[begin:end] for begin, end in zip(cuts, cuts[1:])]


def num_rank_is_power_2(num_rank):
    return bin(num_rank).count("1") == 1


@contextlib.contextmanager
def env(**variables):
    """Sets variables, those that are None not, and takes them back."""
    given = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
