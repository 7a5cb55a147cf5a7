# SPDX-License-Identifier: Apache-2.0
"""A placement group, waited for. Executors make their own, or use the current one."""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import PlacementTimeout


def create_placement_group(
    resources_per_bundle: Mapping[str, float], num_bundles: int, pg_timeout: float, pg_strategy: str
) -> tuple[Any, list[dict[str, float]]]:
    """The group and its bundles. It is the caller's to remove. Raises PlacementTimeout; then there is no group."""
    import ray  # type: ignore[import]

    bundles = [dict(resources_per_bundle) for _ in range(num_bundles)]
    group = ray.util.placement_group(bundles, strategy=pg_strategy)
    if not group.wait(pg_timeout):
        ray.util.remove_placement_group(group)
        raise PlacementTimeout(
            f"Placement group creation timed out. After {pg_timeout:g} s the cluster has no room for {num_bundles} bundles of "
            f"{dict(resources_per_bundle)}; free: {ray.available_resources()}"
        )
    return group, bundles
