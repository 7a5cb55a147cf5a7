# SPDX-License-Identifier: Apache-2.0
"""Operations that meet by name, from Python: it knows no tensors. hvdray.torch and hvdray.arrays are over it."""
