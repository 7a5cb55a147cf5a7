# SPDX-License-Identifier: Apache-2.0
from hvdray.torch.process_sets import ProcessSet as ProcessSet
from hvdray.torch.process_sets import add_process_set as add_process_set
from hvdray.torch.process_sets import global_process_set as global_process_set
from hvdray.torch.process_sets import remove_process_set as remove_process_set
