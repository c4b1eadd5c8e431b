"""The control door: HTTP and JSON for whoever tests against this broker.

Rule: an operation is a function with types (`control/api/`), and its signature is the only description of it: what is
taken and refused over HTTP, `/openapi.json`, the method of `KafkaBroker` and the command come from there. Whatever is
sent, the broker goes on, and who sent it is told what is wrong and what is allowed.

    schema.py       types of Python as JSON, both ways
    operations.py   a function as an operation
    routes.py       which operations there are, by method and path
    door.py         who may come in; from a request to an operation and back
    http.py         HTTP/1.1 on a socket
    openapi.py      all operations as an OpenAPI document
    control.py      what operations may reach
    inside.py       requests of Kafka's protocol from inside the process
    api/            the operations
"""
