"""Answers of a real Kafka, recorded, and ours beside them.

A scenario is a generator that asks one request after the other and gets each answer back, so a later request can use an
earlier answer:

    @scenario
    def delete_twice(name: Name) -> Script:
        yield "create", create_topics(name("a"))
        yield "delete", delete_topics(name("a"))
        yield "delete again", delete_topics(name("a"))

`python -m interop.answers` runs all of them against a real Kafka and writes the tables of `recorded/`, one for each
area; `interop/test_answers.py` runs them against the target and compares.
"""
