# SPDX-License-Identifier: Apache-2.0
"""Batch normalization over the batches of all ranks, on any device."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.autograd import Function
from torch.nn.modules.batchnorm import _BatchNorm

from .._async import _core
from ._operations import allgather_async, allreduce_async, synchronize
from ._requests import Sum


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm{1,2,3}d; while it trains, mean and variance are those of all ranks' batches together."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        uses_batch = self.training or not self.track_running_stats
        if not uses_batch or _core.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        update = self.training and self.track_running_stats
        factor = 0.0
        if update:
            self.num_batches_tracked.add_(1)
            factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps)
        if update:
            with torch.no_grad():
                unbiased = variance * (count / (count - 1).clamp(min=1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)
        return output


class _Normalize(Function):
    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor], eps: float
    ) -> Any:
        wide = input if input.dtype == torch.float64 else input.float()
        over = [dim for dim in range(input.dim()) if dim != 1]
        rows = input.numel() // max(input.size(1), 1)
        own_mean = wide.sum(over) / max(rows, 1)
        own_square = (wide - _as_channel(own_mean, input)).square().sum(over)
        message = torch.cat([own_mean.new_tensor([rows]), own_mean, own_square]).unsqueeze(0)
        parts = synchronize(allgather_async(message, "sync_batch_norm.forward"))
        counts = parts[:, :1]
        means, squares = parts[:, 1:].split(input.size(1), 1)
        count = counts.sum()
        mean = (counts * means).sum(0) / count
        variance = (squares + counts * (means - mean).square()).sum(0) / count
        scale = (variance + eps).rsqrt()
        normal = (wide - _as_channel(mean, input)) * _as_channel(scale, input)
        ctx.save_for_backward(normal, weight, scale, count)
        ctx.over, ctx.dtype = over, input.dtype
        output = normal
        if weight is not None and bias is not None:
            output = normal * _as_channel(weight, input) + _as_channel(bias, input)
        ctx.mark_non_differentiable(mean, variance, count)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        normal, weight, scale, count = ctx.saved_tensors
        wide = gradient.to(normal.dtype)
        sum_gradient = wide.sum(ctx.over)
        sum_product = (wide * normal).sum(ctx.over)
        to_input = None
        if ctx.needs_input_grad[0]:
            message = torch.cat([sum_gradient, sum_product])
            sums = synchronize(allreduce_async(message, name="sync_batch_norm.backward", op=Sum))
            of_gradient, of_product = (sums / count).chunk(2)
            factor = scale if weight is None else scale * weight
            centered = wide - _as_channel(of_gradient, normal) - normal * _as_channel(of_product, normal)
            to_input = (centered * _as_channel(factor, normal)).to(ctx.dtype)
        if weight is None:
            return to_input, None, None, None
        return to_input, sum_product.to(weight.dtype), sum_gradient.to(weight.dtype), None


def _as_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view([1, -1] + [1] * (like.dim() - 2))
