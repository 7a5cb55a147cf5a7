# SPDX-License-Identifier: Apache-2.0
"""hvdray.torch by another name, with its modules."""

import sys

import hvdray.torch

for _name in [name for name in sys.modules if name.startswith("hvdray.torch.")]:
    sys.modules[_name.replace("hvdray", "horovod", 1)] = sys.modules[_name]
sys.modules["horovod.torch.mpi_ops"] = hvdray.torch
sys.modules["horovod.torch"] = hvdray.torch
