"""The acquisition in parts of the factor graph: partition, parts, and three transports (in-process, processes, Ray)."""

from dechbo.distributed.engine import PartsEngine, ProcessEngine
from dechbo.distributed.partition import Partition, partition
from dechbo.distributed.synchronous import SynchronousMaxSum

__all__ = ["Partition", "PartsEngine", "ProcessEngine", "SynchronousMaxSum", "partition"]
