"""Record `answers.json` from a running Apache Kafka: `record.py HOST:PORT [scenario ...]`

The broker must look for timed-out transactions often: transaction.abort.timed.out.transaction.cleanup.interval.ms=500
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.scenarios.transactions.client import Client
from tests.scenarios.transactions.scripts import SCENARIOS
from tests.scenarios.transactions.talk import SocketWire

ANSWERS = Path(__file__).with_name("answers.json")


def main(address: str, names: list[str]) -> None:
    answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    port = int(address.rpartition(":")[2])
    for name in names or list(SCENARIOS):
        client = Client(SocketWire(port), f"{name}-{secrets.token_hex(3)}")
        client.await_transactions()
        client.await_producer_ids()
        SCENARIOS[name](client)
        answers[name] = client.lines
        print(f"{name}: {len(client.lines)} answers")
    ordered = {name: answers[name] for name in SCENARIOS if name in answers}
    ANSWERS.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
