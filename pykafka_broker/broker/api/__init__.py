"""The APIs, a module each, imported with the first request for it (`broker/requests/routes.py`).

Rule: a module opens with what the API does here and what its versions change, and declares itself with `@handles`.
"""
