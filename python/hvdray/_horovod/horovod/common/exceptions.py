# SPDX-License-Identifier: Apache-2.0
from hvdray.torch._errors import HorovodInternalError as HorovodInternalError
from hvdray.torch._errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
