"""All share group scenarios, by name."""

from tests.scenarios.groups.stage import Scenario
from tests.scenarios.share import group_scripts, offset_scripts, record_scripts, session_scripts

SCENARIOS: dict[str, Scenario] = {
    **group_scripts.SCENARIOS,
    **session_scripts.SCENARIOS,
    **record_scripts.SCENARIOS,
    **offset_scripts.SCENARIOS,
}
