"""Where a study computes its suggestions: this process, or parts of the factor graph in processes or on Ray."""

from __future__ import annotations

from dechbo.distributed import PartsEngine, ProcessEngine

ENGINES = ("local", "processes", "ray")


def running_engine(name: str, parts: int | None, address: str | None) -> PartsEngine | None:
    """The engine called ``name``; None for "local". ``address`` is that of a Ray cluster, started here if None."""
    if name == "local":
        return None
    if name == "processes":
        return ProcessEngine(parts=parts)
    from dechbo.distributed.ray import RayEngine

    return RayEngine(address, parts=parts)


def quiet_engine(name: str) -> PartsEngine | None:
    """An engine that makes the same suggestions as the one called ``name``, bit for bit, and starts nothing."""
    return None if name == "local" else PartsEngine(parts=1)
