"""The control API: HTTP and JSON for tests against the broker.

Rule: an operation is a function with types (`control/api/`). Its signature is the only description: the parameters over
HTTP, `/openapi.json` and the command come from there. No request can end the broker. A wrong request is answered with
the mistake and with what is allowed.

    schema.py       types of Python as JSON, both ways
    operations.py   functions as operations, and the table of all operations by method and path
    door.py         access; the way from a request to an operation and back; the files of the page
    http.py         HTTP/1.1 on a socket
    answers.py      the types of answers
    control.py      everything within reach of operations, requests from inside the process among them
    api/            the operations
"""
