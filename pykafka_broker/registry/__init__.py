"""A schema registry beside the broker: Confluent's REST API on the topic `_schemas`.

Rule: the topic is the state. A change is written to the topic as Confluent's registry writes it, and takes effect when
it is read from there; so a registry of theirs can go on with our topic, and ours with theirs.

    subjects.py     names of subjects, and the contexts that they are in
    contracts.py    metadata and rule sets
    records.py      schemas and versions, the records of the topic, GUIDs
    state.py        what the records of the topic add up to
    topic.py        the topic itself, written and read inside the process
    problems.py     errors, in Confluent's numbers and words
    kinds.py        AVRO, JSON, PROTOBUF; compatibility levels
    avro.py json_schema.py protobuf.py    each language: valid texts, equal schemas, compatible schemas
    parsing.py      parsed schemas, kept while they are needed
    registry.py     schemas registered, found, compared and deleted
    settings.py     levels, modes and other settings
    decoding.py     values of records as JSON, by schemas here or of another registry
    api.py          parameters, bodies and paths; the HTTP address: access, the registries of other brokers
"""
