"""A schema registry beside the broker: Confluent's REST API on the topic `_schemas`.

Rule: the topic is the state. What is written goes into it as Confluent's registry writes it, and takes effect by being
read from it; so a registry of theirs can go on with our topic, and ours with theirs.

    subjects.py     names of subjects, and the contexts that they are in
    stored.py       schemas and versions, as they are kept
    contracts.py    metadata and rule sets
    guids.py        what a schema is called in every registry
    records.py      keys and values of the topic
    state.py        what the records of the topic add up to
    topic.py        the topic itself, written and read inside the process
    problems.py     what is refused, in Confluent's numbers and words
    kinds.py        AVRO, JSON, PROTOBUF: which module knows the language
    avro/ json_schema/ protobuf/    each language: what is valid, when two schemas are one, what is compatible
    levels.py       BACKWARD, FULL_TRANSITIVE and the others
    registry.py     what may be asked of it
    decoding.py     what serializers have written, as JSON
    settings.py     levels, modes and what else is set
    call.py         one request: its parameters and its body
    api.py          paths, and what each answers
    forwarding.py   what the registry beside another broker is to answer
    door.py         who may come in; from a request to an answer
    opening.py      beside a broker in one process
"""
