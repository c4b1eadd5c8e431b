"""The published matrix: client by release, scenario, and what the broker is (ours, Kafka, ours as an older release).

Rule: a cell is what a client's own program found against a running broker, just now or at the time that stands there.

    python -m interop.matrix [--rows GLOB] [--columns GLOB] [--targets ours,kafka,older] [--resume]
"""
