"""Whole clusters in virtual time, inside the event loop of a test.

Rule: what happens is decided by the seed and by nothing else. The package is imported by tests that simulate, and by
nobody else.
"""

from __future__ import annotations

from pykafka_broker.testing.simulation.cluster import SimulatedCluster
from pykafka_broker.testing.simulation.loop import SimulatedLoop, SimulationStalled, simulate

__all__ = ["SimulatedCluster", "SimulatedLoop", "SimulationStalled", "simulate"]
