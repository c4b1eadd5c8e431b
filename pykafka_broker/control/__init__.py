"""The control API: HTTP and JSON for tests against the broker.

Rule: an operation is a function with types (`control/api/`). Its signature is the only description: the parameters over
HTTP, `/openapi.json` and the command come from there. No request can end the broker. A wrong request is answered with
the mistake and with what is allowed.

    schema.py           types of Python as JSON, both ways
    operations.py       functions as operations, and the table of all operations by method and path
    problems.py         refusals
    door.py             access; the way from a request to an operation and back; the files of the page
    http.py             HTTP/1.1 on a socket
    other_nodes.py      the control APIs of a cluster's other nodes, for the page
    answers.py          the types of answers
    control.py          everything within reach of operations, requests from inside the process among them
    state.py            another broker in the place of this one: reset, snapshot, restore
    moving_time.py      the clock that stops and moves
    observed_router.py  the requests of clients, seen and disturbed
    reading.py          records of partitions, decoded or counted
    comparing.py        records compared with expected ones
    otlp.py             the metrics that clients push
    api/                the operations
    traffic/            requests and answers: the log of them, faults, recordings
    history/            what clients were told, and whether it is right
    bundle/             the page
"""
