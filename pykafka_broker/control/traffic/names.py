"""Names of APIs and of errors, as people write them.

Rule: a name that there is not is refused with those that were probably meant.
"""

from __future__ import annotations

from difflib import get_close_matches

from pykafka_broker.control.problems import Problem
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode

_APIS = {spec.name.lower(): key for key, spec in SPECS.items()}
_NAMES = [spec.name for spec in SPECS.values()]


def api_keys(api: str | list[str] | None) -> frozenset[int] | None:
    """The keys of APIs by name (`Produce`), key, or several of them; None for all. Raises `Problem` 400."""
    if api is None:
        return None
    return frozenset(map(_api_key, api if isinstance(api, list) else [api]))


def _api_key(api: str) -> int:
    if api.isdecimal() and api.isascii() and int(api) in SPECS:
        return int(api)
    key = _APIS.get(api.replace("_", "").lower())
    if key is None:
        raise Problem(400, f"there is no API {api}{_did_you_mean(api, _NAMES)}")
    return key


def error_code(error: str | int) -> int:
    """The code of an error by name or code. Raises `Problem` 400."""
    if isinstance(error, int):
        if error in ErrorCode._value2member_map_ and error != ErrorCode.NONE:
            return error
        raise Problem(400, f"there is no error {error}; codes are -1 and 1 to {max(ErrorCode)}")
    names = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    if error.upper() not in names:
        raise Problem(400, f"there is no error {error}{_did_you_mean(error.upper(), names)}")
    return ErrorCode[error.upper()].value


def _did_you_mean(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, 3, 0.6)
    return f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(names)}"
