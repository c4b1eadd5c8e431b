"""The areas: one module and one recorded table each. A new area is added to `AREAS`."""

from types import ModuleType

from interop.answers.areas import configs, fetch, offsets, produce, records, topics

AREAS: dict[str, ModuleType] = {
    "topics": topics,
    "configs": configs,
    "records": records,
    "produce": produce,
    "fetch": fetch,
    "offsets": offsets,
}
