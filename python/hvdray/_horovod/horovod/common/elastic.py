# SPDX-License-Identifier: Apache-2.0
from hvdray.torch.elastic import run as run
from hvdray.torch.elastic.state import ObjectState as ObjectState
from hvdray.torch.elastic.state import State as State
