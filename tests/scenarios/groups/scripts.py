"""All group scenarios, by name."""

from tests.scenarios.groups import (
    classic_admin_scripts,
    classic_scripts,
    classic_time_scripts,
    consumer_scripts,
    consumer_static_scripts,
    migration_scripts,
    offset_scripts,
    static_member_scripts,
    streams_scripts,
    streams_task_scripts,
    streams_topology_scripts,
)
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

SCENARIOS = Scripts[Stage](
    classic_scripts.SCENARIOS
    | classic_time_scripts.SCENARIOS
    | static_member_scripts.SCENARIOS
    | classic_admin_scripts.SCENARIOS
    | offset_scripts.SCENARIOS
    | consumer_scripts.SCENARIOS
    | consumer_static_scripts.SCENARIOS
    | migration_scripts.SCENARIOS
    | streams_scripts.SCENARIOS
    | streams_topology_scripts.SCENARIOS
    | streams_task_scripts.SCENARIOS
)
