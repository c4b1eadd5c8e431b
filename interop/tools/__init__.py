"""The tools of `pykafka_broker.tools` compared with the scripts of Apache Kafka 4.4.0.

Rule: a table (`tables/NAME.py`) is a list of invocations in their order. `python -m interop.tools.record NAME` runs
them through Kafka's own tools against a real Kafka and keeps exit code, standard output and standard error of each, the
two apart (`recorded/NAME.json`); `interop/test_tools.py` runs them through ours, against our broker and against Kafka,
and compares. White space, times, ids and addresses aside, they have to be equal.
"""
