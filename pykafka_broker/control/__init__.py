"""The control API: HTTP and JSON for tests against the broker.

Rule: an operation is a function with types (`control/api/`), and its signature is the only description of it: the
parameters over HTTP, `/openapi.json`, the method of `KafkaBroker` and the command come from there. No request can end
the broker, and a client whose request is wrong is told what is wrong and what is allowed.

    schema.py       types of Python as JSON, both ways
    operations.py   a function as an operation, and which operations there are, by method and path
    door.py         who may ask; from a request to an operation and back; the files of the page
    http.py         HTTP/1.1 on a socket
    answers.py      the types of answers
    control.py      everything that operations may reach, requests from inside the process among them
    proxy.py        the log and the faults in front of another broker
    api/            the operations
"""
