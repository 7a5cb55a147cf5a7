# SPDX-License-Identifier: Apache-2.0
"""How a tensor travels: as it is, or as floats of 16 bits."""

from __future__ import annotations

from typing import Any

import torch


class Compressor:
    """Makes a tensor small for its way, and what arrives large again. Scripts may bring their own."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """What is to be sent, and what `decompress` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class CastCompressor(Compressor):
    """Floating-point tensors go as `wire`; others, and those of that type, as they are."""

    wire: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor.to(cls.wire) if tensor.is_floating_point() else tensor, tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx)


class FP16Compressor(CastCompressor):
    wire = torch.float16


class BF16Compressor(CastCompressor):
    wire = torch.bfloat16


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
