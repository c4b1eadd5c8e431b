"""Which test file covers a module that has none of its own name, and how.

Rule: a row says what was measured: its test file runs most lines of the module's functions. A module goes out of the
table when it gets a test file of its own; one that is in no row and has none is refused (test_every_module.py).
"""

from __future__ import annotations

COVERED_BY: dict[str, tuple[str, str]] = {
    "zookeeper/test_extension.py": (
        "runs a broker with a ZooKeeper in memory",
        """
        zookeeper/controller zookeeper/nodes
        """,
    ),
    "broker/api/test_admin.py": (
        "asks for each of them through the router",
        """
        broker/api/cluster broker/api/metadata broker/api/topics broker/requests/context cluster/bootstrap
        """,
    ),
    "broker/api/test_cordoned_log_dirs.py": (
        "moves replicas between directories",
        """
        broker/api/replicas
        """,
    ),
    "broker/api/test_like_kafka.py": (
        "compares every answer with Kafka's",
        """
        broker/api/api_versions broker/api/configs cluster/quotas
        """,
    ),
    "broker/api/test_streams_groups.py": (
        "asks for them through the router",
        """
        broker/api/streams_group_heartbeat
        """,
    ),
    "broker/coordinators/test_group_host.py": (
        "works on a whole broker",
        """
        broker/broker
        """,
    ),
    "broker/requests/test_controller_routes.py": (
        "frames go in on a controller's listener",
        """
        broker/api/controller/envelope broker/api/controller/quorum
        """,
    ),
    "broker/requests/test_emulated_router.py": (
        "asks for the features of releases",
        """
        cluster/features
        """,
    ),
    "broker/requests/test_router.py": (
        "raises it in handlers",
        """
        errors
        """,
    ),
    "broker/test_directories.py": (
        "fails directories and moves logs between them",
        """
        broker/membership/lone_broker
        """,
    ),
    "cli/test_main.py": (
        "gives the commands",
        """
        cli/__init__ cli/configs cli/serve
        """,
    ),
    "cli/test_process.py": (
        "starts and ends the process",
        """
        server/__init__ tools/__init__
        """,
    ),
    "cli/test_settings.py": (
        "mistypes them",
        """
        cli/commands
        """,
    ),
    "client/test_producer.py": (
        "sends records with them",
        """
        client/batches
        """,
    ),
    "cluster/test_controller.py": (
        "sends the requests to the controller",
        """
        cluster/feature_updates
        """,
    ),
    "cluster/test_image.py": (
        "takes an image apart and makes it again",
        """
        cluster/image_records
        """,
    ),
    "control/api/test_connections.py": (
        "clients come and go",
        """
        control/api/traffic
        """,
    ),
    "control/api/test_faults.py": (
        "a client on a socket meets them",
        """
        testing/traffic
        """,
    ),
    "control/api/test_records.py": (
        "writes and reads through it",
        """
        control/reading testing/data testing/record
        """,
    ),
    "control/api/test_topics.py": (
        "asks for them through the control API",
        """
        testing/controlled
        """,
    ),
    "control/test_door.py": (
        "asks a real process over sockets",
        """
        control/api/health control/problems testing/control_client
        """,
    ),
    "control/test_observed_router.py": (
        "frames go in, answers come out or not",
        """
        control/traffic/answers control/traffic/exchange
        """,
    ),
    "control/test_state.py": (
        "resets, keeps and restores brokers with connected clients",
        """
        control/api/state
        """,
    ),
    "coordinators/groups/test_consumer.py": (
        "has members of the consumer protocol come and go",
        """
        coordinators/groups/consumer_group coordinators/groups/epoch_group
        """,
    ),
    "coordinators/transactions/test_time.py": (
        "lets transactions end in time and too late",
        """
        coordinators/transactions/coordinator
        """,
    ),
    "log/compaction/test_clean.py": (
        "cleans a log",
        """
        log/compaction/filter
        """,
    ),
    "log/test_flush.py": (
        "syncs logs, with failures",
        """
        log/unsynced
        """,
    ),
    "log/test_directory_map.py": (
        "opens directories in every state",
        """
        log/log_directory
        """,
    ),
    "log/test_manager.py": (
        "starts, keeps up and ends a broker's logs",
        """
        log/jobs
        """,
    ),
    "log/test_retention.py": (
        "deletes segments",
        """
        log/segments
        """,
    ),
    "log/tool/test_directories.py": (
        "gives the commands to directories in every state",
        """
        log/scan log/tool/command log/tool/decoding log/tool/directory log/tool/repair
        """,
    ),
    "log/tool/test_tool.py": (
        "finds and repairs each kind of damage",
        """
        log/tool/abort_markers log/tool/verify
        """,
    ),
    "packaging/test_container.py": (
        "starts what the image would start",
        """
        cli/healthy testing/container
        """,
    ),
    "registry/avro/test_schema.py": (
        "reads schemas of every type",
        """
        registry/avro
        """,
    ),
    "registry/json_schema/test_schema.py": (
        "follows references of every kind",
        """
        registry/json_schema
        """,
    ),
    "registry/protobuf/test_writing.py": (
        "reads texts and descriptors",
        """
        registry/protobuf
        """,
    ),
    "registry/test_registry.py": (
        "asks a real process over HTTP",
        """
        registry/kinds registry/problems
        """,
    ),
    "scenarios/groups/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/classic_groups broker/api/consumer_group_heartbeat broker/api/group_admin
        broker/api/group_offsets coordinators/groups/classic_group
        coordinators/groups/consumer_classic coordinators/groups/consumer_protocol
        coordinators/groups/coordinator
        """,
    ),
    "scenarios/share/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/share_group_heartbeat broker/api/share_group_offsets broker/coordinators/share_partitions
        """,
    ),
    "scenarios/telemetry/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/telemetry
        """,
    ),
    "scenarios/transactions/test_answers.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/find_coordinator broker/api/init_producer_id broker/api/transaction_admin
        broker/api/transactions
        """,
    ),
    "server/test_event_loop.py": (
        "runs turns on the loop that the system has",
        """
        server/epoll_loop
        """,
    ),
    "server/test_link.py": (
        "connects to a peer of the test's",
        """
        peers server/dial server/link_codec
        """,
    ),
    "server/test_server.py": (
        "connects to a server",
        """
        server/connection
        """,
    ),
    "simulation/test_network.py": (
        "links of the network's hosts break, wait and come again",
        """
        testing/simulation/link testing/simulation/network testing/simulation/timeline
        """,
    ),
    "simulation/test_one_node.py": (
        "runs a node through all kinds of faults",
        """
        testing/simulation/faults testing/simulation/node
        """,
    ),
    "log/crash/test_crash.py": (
        "cuts the power of the disk after each operation",
        """
        testing/simulation/disk
        """,
    ),
    "testing/test_asynchronous.py": (
        "imports from it, and awaits all that a broker can",
        """
        testing/__init__ testing/async_client
        """,
    ),
    "testing/test_cluster_dialect.py": (
        "does all that a cluster can, in both forms",
        """
        testing/asynchronous_cluster testing/cluster_nodes testing/cluster_traffic
        """,
    ),
    "testing/test_process.py": (
        "gives wrong ones",
        """
        testing/arguments
        """,
    ),
    "testing/test_pytest_plugin.py": (
        "runs pytest with it",
        """
        pytest_plugin testing/fixtures
        """,
    ),
    "testing/test_replay.py": (
        "records and plays with it",
        """
        cli/replay cli/recorded_events control/api/recording testing/compared_answers testing/recorded_messages
        testing/recording
        """,
    ),
    "tools/test_acls.py": (
        "adds, lists and removes some",
        """
        client/acls
        """,
    ),
    "tools/test_configs.py": (
        "runs the tool that it is of against a broker",
        """
        client/configs client/groups
        """,
    ),
    "tools/test_console.py": (
        "what is sent and printed",
        """
        tools/console_consumer tools/console_producer
        """,
    ),
    "tools/test_get_offsets.py": (
        "runs the tool, also against older brokers",
        """
        client/leaders
        """,
    ),
    "tools/test_perf_tests.py": (
        "runs them against a broker",
        """
        tools/consumer_perf_test tools/end_to_end_latency tools/producer_perf_test tools/share_consumer_perf_test
        tools/statistics
        """,
    ),
    "tools/test_small_tools.py": (
        "runs them against a broker",
        """
        client/quorum tools/broker_api_versions tools/client_metrics tools/cluster tools/features tools/groups
        tools/metadata_quorum
        """,
    ),
    "tools/test_topics.py": (
        "runs the tool that it is of against a broker",
        """
        client/topics
        """,
    ),
    "tools/test_verifiable.py": (
        "runs them against a broker",
        """
        tools/verifiable_consumer tools/verifiable_producer tools/verifiable_share_consumer
        """,
    ),
}
