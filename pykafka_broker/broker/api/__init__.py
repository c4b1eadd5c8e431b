"""The APIs: a module for each family, imported with the first request for an API of it (`broker/requests/routes.py`).

Rule: a module opens with the behaviour of its APIs here and the changes of their versions, and declares handlers with
`@handles`. An API that clients ask for without the rest of a family keeps a module of its own.
"""
