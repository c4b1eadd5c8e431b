"""Which test file covers a module that has none of its own name, and how.

Rule: a row says what was measured: its test file runs most lines of the module's functions. A module goes out of the
table when it gets a test file of its own; one that is in no row and has none is refused (test_every_module.py).
"""

from __future__ import annotations

COVERED_BY: dict[str, tuple[str, str]] = {
    "broker/api/test_admin.py": (
        "asks for each of them through the router",
        """
        broker/api/create_partitions broker/api/create_topics broker/api/delete_topics
        broker/api/describe_log_dirs broker/api/metadata broker/api/quorum_members broker/api/update_features
        broker/api/user_scram_credentials broker/requests/context cluster/bootstrap
        """,
    ),
    "broker/api/test_cordoned_log_dirs.py": (
        "moves replicas between directories",
        """
        broker/api/alter_replica_log_dirs
        """,
    ),
    "broker/api/test_fetch.py": (
        "reads through it",
        """
        broker/api/partition_reader
        """,
    ),
    "broker/api/test_like_kafka.py": (
        "compares every answer with Kafka's",
        """
        broker/api/alter_configs broker/api/api_versions broker/api/broker_loggers broker/api/client_quotas
        broker/api/describe_cluster broker/api/describe_configs broker/api/describe_quorum
        broker/api/describe_topic_partitions broker/api/elect_leaders broker/api/list_config_resources
        broker/api/partition_reassignments cluster/quotas
        """,
    ),
    "broker/api/test_pitfalls.py": (
        "has their odd cases, and no other test asks for them",
        """
        broker/api/delete_records broker/api/offset_for_leader_epoch
        """,
    ),
    "broker/api/test_streams_groups.py": (
        "asks for them through the router",
        """
        broker/api/streams_group_describe broker/api/streams_group_heartbeat
        """,
    ),
    "broker/replication/test_node_replication.py": (
        "whole brokers replicate",
        """
        broker/replication/fetchers broker/replication/followed broker/replication/replica_news
        """,
    ),
    "broker/requests/test_controller_routes.py": (
        "frames go in on a controller's listener",
        """
        broker/api/controller/api_versions broker/api/controller/describe_cluster broker/api/controller/envelope
        broker/api/controller/members broker/api/controller/raft broker/api/controller/votes
        broker/controller/controller_role
        """,
    ),
    "broker/test_directories.py": (
        "fails directories and moves logs between them",
        """
        broker/metadata/log_listening broker/membership/lone_broker
        """,
    ),
    "broker/requests/test_emulated_router.py": (
        "asks for the features of releases",
        """
        cluster/features
        """,
    ),
    "broker/coordinators/test_group_host.py": (
        "works on a whole broker",
        """
        broker/broker
        """,
    ),
    "broker/test_observing.py": (
        "runs a whole broker under a controller of the test's",
        """
        broker/metadata/metadata_follower broker/membership/strays
        """,
    ),
    "broker/test_power_cuts.py": (
        "cuts the power in the middle of transactions",
        """
        broker/coordinators/transaction_markers
        """,
    ),
    "broker/requests/test_router.py": (
        "raises it in handlers",
        """
        errors
        """,
    ),
    "broker/coordinators/test_share_state_requests.py": (
        "asks before the topic of states is made",
        """
        broker/coordinators/awaited_topic
        """,
    ),
    "cli/test_main.py": (
        "gives the commands",
        """
        cli/__init__ cli/configs cli/log cli/serve
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
    "cluster/raft/test_observer.py": (
        "fetches the log of a quorum",
        """
        cluster/raft/followed_log
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
    "cluster/test_metadata_log.py": (
        "writes and reads the files",
        """
        cluster/snapshot
        """,
    ),
    "control/api/test_connections.py": (
        "clients come and go",
        """
        control/api/requests
        """,
    ),
    "control/api/test_faults.py": (
        "a client on a socket meets them",
        """
        control/traffic/readable testing/traffic
        """,
    ),
    "control/api/test_groups.py": (
        "asks for groups of real clients",
        """
        control/groups_view
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
    "control/api/test_waits.py": (
        "waits for what a thread does meanwhile",
        """
        control/topic_watch
        """,
    ),
    "control/test_door.py": (
        "asks a real process over sockets",
        """
        control/api/health control/control control/inside control/opening control/problems
        testing/control_client
        """,
    ),
    "control/test_observed_router.py": (
        "frames go in, answers come out or not",
        """
        control/traffic/answers control/traffic/exchange
        """,
    ),
    "control/test_proxy.py": (
        "clients go through it",
        """
        cli/proxy
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
        coordinators/groups/consumer_group
        """,
    ),
    "coordinators/groups/test_classic.py": (
        "walks a group at random through its states",
        """
        coordinators/result
        """,
    ),
    "coordinators/streams/test_restart.py": (
        "has members come and go, with a restart in between",
        """
        coordinators/streams/protocol
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
        log/compaction/filter log/compaction/swap
        """,
    ),
    "log/test_checkpoints.py": (
        "keeps and loads the leader epochs",
        """
        log/leader_epochs
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
        log/scan log/tool/command log/tool/decoding log/tool/directory log/tool/dump log/tool/repair
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
    "records/test_header.py": (
        "checks batches with it",
        """
        records/crc
        """,
    ),
    "records/test_validation.py": (
        "compares with looking at each record",
        """
        records/fast_validation
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
        registry/api registry/call registry/kinds registry/problems registry/topic
        """,
    ),
    "scenarios/groups/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/consumer_group_describe broker/api/consumer_group_heartbeat broker/api/delete_groups
        broker/api/describe_groups broker/api/group_describe broker/api/heartbeat broker/api/join_group
        broker/api/leave_group broker/api/list_groups broker/api/offset_commit broker/api/offset_delete
        broker/api/offset_fetch broker/api/sync_group coordinators/groups/classic_group
        coordinators/groups/consumer_classic coordinators/groups/consumer_protocol
        coordinators/groups/coordinator coordinators/groups/epoch_group
        """,
    ),
    "scenarios/share/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/alter_share_group_offsets broker/api/delete_share_group_offsets
        broker/api/describe_share_group_offsets broker/api/share_acknowledge broker/api/share_fetch
        broker/api/share_group_describe broker/api/share_group_heartbeat broker/api/share_group_offsets
        broker/api/share_requests broker/coordinators/share_partitions
        """,
    ),
    "scenarios/transactions/test_answers.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/add_offsets_to_txn broker/api/add_partitions_to_txn broker/api/describe_producers
        broker/api/describe_transactions broker/api/end_txn broker/api/find_coordinator
        broker/api/init_producer_id broker/api/list_transactions broker/api/txn_offset_commit
        broker/api/write_txn_markers
        """,
    ),
    "server/test_link.py": (
        "connects to a peer of the test's",
        """
        peers server/link_codec server/link_peers
        """,
    ),
    "server/test_server.py": (
        "connects to a server",
        """
        server/connection
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
        testing/asynchronous_cluster testing/cluster_nodes
        """,
    ),
    "testing/test_pytest_plugin.py": (
        "runs pytest with it",
        """
        pytest_plugin testing/fixtures
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
        tools/console_consumer tools/console_output tools/console_producer
        """,
    ),
    "tools/test_console_share_consumer.py": (
        "reads as one member after the other",
        """
        client/share_consumer
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
        tools/consumer_perf_test tools/end_to_end_latency tools/producer_perf_test tools/statistics
        """,
    ),
    "tools/test_small_tools.py": (
        "runs them against a broker",
        """
        client/quorum tools/broker_api_versions tools/client_metrics tools/features tools/groups
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
        tools/verifiable_consumer tools/verifiable_producer
        """,
    ),
}
