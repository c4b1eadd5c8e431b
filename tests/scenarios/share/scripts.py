"""All share group scenarios, by name."""

from tests.scenarios.scripts import Scripts
from tests.scenarios.share import group_scripts, offset_scripts, record_scripts, session_scripts
from tests.scenarios.share.stage import ShareStage

SCENARIOS = Scripts[ShareStage](
    group_scripts.SCENARIOS | session_scripts.SCENARIOS | record_scripts.SCENARIOS | offset_scripts.SCENARIOS
)
