"""XXH3, the 64-bit hash without a seed (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).

Rule: for inputs of 4 bytes and more, in the five forms that the specification has for them; what Kafka hashes here is
never shorter than 8.
"""

from __future__ import annotations

from struct import Struct

MASK = (1 << 64) - 1
PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1 = 0x9E3779B185EBCA87
PRIME64_2 = 0xC2B2AE3D27D4EB4F
PRIME64_3 = 0x165667B19E3779F9
PRIME64_4 = 0x85EBCA77C2B2AE63
PRIME64_5 = 0x27D4EB2F165667C5
PRIME_MX1 = 0x165667919E3779F9
PRIME_MX2 = 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

STRIPE = 64
STRIPES_IN_BLOCK = (len(SECRET) - STRIPE) // 8
BLOCK = STRIPE * STRIPES_IN_BLOCK
START = (PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1)

_U64 = Struct("<Q")
_TWO = Struct("<2Q")
_LANES = Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """An unsigned number of 64 bits."""
    length = len(data)
    assert length >= 4, "shorter inputs have forms of their own"
    if length <= 8:
        return _tiny(data)
    if length <= 16:
        return _short(data)
    if length <= 128:
        return _avalanche(length * PRIME64_1 + _from_both_ends(data))
    if length <= 240:
        return _middle(data)
    return _long(data)


def _tiny(data: bytes) -> int:
    """4 to 8 bytes."""
    length = len(data)
    number = int.from_bytes(data[-4:], "little") + (int.from_bytes(data[:4], "little") << 32)
    number ^= _read(SECRET, 8) ^ _read(SECRET, 16)
    number = (number ^ _rotated(number, 49) ^ _rotated(number, 24)) * PRIME_MX2 & MASK
    number = (number ^ (number >> 35) + length) * PRIME_MX2 & MASK
    return number ^ number >> 28


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & MASK


def _short(data: bytes) -> int:
    """9 to 16 bytes."""
    low = _read(data, 0) ^ _read(SECRET, 24) ^ _read(SECRET, 32)
    high = _read(data, len(data) - 8) ^ _read(SECRET, 40) ^ _read(SECRET, 48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(len(data) + swapped + high + _fold(low, high))


def _from_both_ends(data: bytes) -> int:
    """17 to 128 bytes."""
    total = 0
    for i in range((len(data) - 1) // 32 + 1):
        total += _mix(data, 16 * i, 32 * i) + _mix(data, len(data) - 16 * (i + 1), 32 * i + 16)
    return total


def _middle(data: bytes) -> int:
    """129 to 240 bytes."""
    length = len(data)
    first = length * PRIME64_1 + sum(_mix(data, 16 * i, 16 * i) for i in range(8))
    rest = sum(_mix(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, length // 16))
    return _avalanche(_avalanche(first) + rest + _mix(data, length - 16, 136 - 17))


def _long(data: bytes) -> int:
    """241 bytes and more: eight sums over stripes, stirred after each block."""
    length = len(data)
    sums = list(START)
    stir = _LANES.unpack_from(SECRET, len(SECRET) - STRIPE)
    blocks = (length - 1) // BLOCK
    for block in range(blocks):
        _add_stripes(sums, data, block * BLOCK, STRIPES_IN_BLOCK)
        for lane, value in enumerate(sums):
            value &= MASK
            sums[lane] = (value ^ value >> 47 ^ stir[lane]) * PRIME32_1 & MASK
    _add_stripes(sums, data, blocks * BLOCK, (length - 1 - blocks * BLOCK) // STRIPE)
    _add_stripe(sums, data, length - STRIPE, len(SECRET) - STRIPE - 7)
    result = length * PRIME64_1
    for lane in range(0, 8, 2):
        low, high = _TWO.unpack_from(SECRET, 11 + 8 * lane)
        result += _fold(sums[lane] & MASK ^ low, sums[lane + 1] & MASK ^ high)
    return _avalanche(result)


def _add_stripes(sums: list[int], data: bytes, at: int, count: int) -> None:
    for stripe in range(count):
        _add_stripe(sums, data, at + stripe * STRIPE, stripe * 8)


def _add_stripe(sums: list[int], data: bytes, at: int, secret_at: int) -> None:
    secret = _LANES.unpack_from(SECRET, secret_at)
    for lane, value in enumerate(_LANES.unpack_from(data, at)):
        key = value ^ secret[lane]
        sums[lane ^ 1] += value
        sums[lane] += (key & 0xFFFFFFFF) * (key >> 32)


def _read(data: bytes, at: int) -> int:
    number: int = _U64.unpack_from(data, at)[0]
    return number


def _mix(data: bytes, at: int, secret_at: int) -> int:
    """16 bytes with 16 of the secret."""
    low, high = _TWO.unpack_from(data, at)
    secret_low, secret_high = _TWO.unpack_from(SECRET, secret_at)
    return _fold(low ^ secret_low, high ^ secret_high)


def _fold(one: int, other: int) -> int:
    product = one * other
    return product & MASK ^ product >> 64


def _avalanche(number: int) -> int:
    number &= MASK
    number = (number ^ number >> 37) * PRIME_MX1 & MASK
    return number ^ number >> 32
