"""All group scenarios, by name."""

from tests.scenarios.groups import classic_scripts, consumer_scripts, offset_scripts, streams_scripts
from tests.scenarios.groups.stage import Scenario

SCENARIOS: dict[str, Scenario] = {
    **classic_scripts.SCENARIOS,
    **offset_scripts.SCENARIOS,
    **consumer_scripts.SCENARIOS,
    **streams_scripts.SCENARIOS,
}
