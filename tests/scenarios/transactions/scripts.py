"""All scenarios of transactions, by name."""

from tests.scenarios.scripts import Scripts
from tests.scenarios.transactions import admin_scripts, commit_scripts, producer_scripts
from tests.scenarios.transactions.client import Client

SCENARIOS = Scripts[Client](producer_scripts.SCENARIOS | commit_scripts.SCENARIOS | admin_scripts.SCENARIOS)
