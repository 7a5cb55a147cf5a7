# SPDX-License-Identifier: Apache-2.0
from hvdray._async._errors import HorovodInternalError as HorovodInternalError
from hvdray._async._errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
