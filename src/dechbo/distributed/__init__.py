"""Ray: the only room that imports it, and only where it is used."""

from dechbo.distributed.workers import Lost, RayWorkers

__all__ = ["Lost", "RayWorkers"]
