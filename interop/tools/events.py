"""Lines of the verifiable tools without times and rates; fields keep their order."""

import json


def told(out: str) -> str:
    lines = []
    for line in out.splitlines():
        if line.startswith("{"):
            event = json.loads(line.replace(":TIME", ":0"))
            lines.append(json.dumps(event | {key: 0 for key in ("timestamp", "avg_throughput") if key in event}))
    return "\n".join(lines)
