"""Which test file covers a module that has none of its own name, and how.

Rule: a row says what was measured: its test file runs most lines of the module's functions. A module goes out of the
table when it gets a test file of its own; one that is in no row and has none is refused (test_every_module.py).
"""

from __future__ import annotations

COVERED_BY: dict[str, tuple[str, str]] = {
    "broker/test_controller_router.py": (
        "frames go in on a controller's listener",
        """
        broker/controller_role broker/api/controller/raft broker/api/controller/members
        broker/api/controller/api_versions broker/api/controller/describe_cluster broker/api/controller/envelope
        broker/api/controller/votes
        """,
    ),
    "broker/replication/test_node_replication.py": (
        "whole brokers replicate",
        """
        broker/replication/fetchers broker/replication/followed
        broker/replication/replica_news
        """,
    ),
    "broker/test_directories.py": (
        "fails directories and moves logs between them",
        """
        broker/log_listening broker/lone_broker log/listener
        """,
    ),
    "broker/test_share_state_requests.py": (
        "asks before the topic of states is made",
        """
        broker/awaited_topic
        """,
    ),
    "broker/test_metering.py": (
        "reads the throttle times of answers of every kind",
        """
        broker/throttled_answer
        """,
    ),
    "broker/test_emulated_router.py": (
        "asks for the features of releases",
        """
        cluster/features
        """,
    ),
    "broker/test_observing.py": (
        "runs a whole broker under a controller of the test's",
        """
        broker/assignments broker/metadata_follower broker/strays
        """,
    ),
    "cluster/raft/test_observer.py": (
        "fetches the log of a quorum",
        """
        cluster/raft/followed_log cluster/raft/observer_requests
        """,
    ),
    "security/hooks/test_policies.py": (
        "a broker asks a policy about topics and configs",
        """
        cluster/policies
        """,
    ),
    "control/test_door.py": (
        "asks a real process over sockets",
        """
        control/control control/http_listener control/inside control/opening control/problems
        control/routes control/api/health testing/control_client
        """,
    ),
    "registry/test_registry.py": (
        "asks a real process over HTTP",
        """
        registry/api registry/call registry/kinds registry/levels registry/opening registry/problems registry/topic
        """,
    ),
    "registry/json_schema/test_compatibility.py": (
        "compares schemas keyword by keyword",
        """
        registry/json_schema/combined registry/json_schema/content registry/reasons
        """,
    ),
    "registry/json_schema/test_schema.py": (
        "follows references of every kind",
        """
        registry/json_schema/references
        """,
    ),
    "registry/test_decoding.py": (
        "decodes what Protobuf's serializer has written",
        """
        registry/protobuf/messages
        """,
    ),
    "registry/protobuf/test_writing.py": (
        "reads texts and descriptors",
        """
        registry/protobuf/schema
        """,
    ),
    "control/test_browse.py": (
        "lists for the page, asked as the page asks",
        """
        control/api/browse control/api/browse_topics
        """,
    ),
    "control/test_browsing.py": (
        "records for the page, asked as the page asks",
        """
        control/api/browse_records
        """,
    ),
    "control/test_connections.py": (
        "clients come and go",
        """
        control/api/connections
        """,
    ),
    "control/test_metrics.py": (
        "reads them as Prometheus does",
        """
        control/api/metrics control/traffic/counts
        """,
    ),
    "control/test_faults.py": (
        "a client on a socket meets them",
        """
        control/observing control/api/faults control/api/requests control/traffic/chaos control/traffic/names
        control/traffic/readable testing/traffic
        """,
    ),
    "control/test_incidents.py": (
        "clients see them",
        """
        control/api/incidents testing/incidents
        """,
    ),
    "control/test_cluster.py": (
        "a node alone shows them",
        """
        control/api/cluster testing/membership
        """,
    ),
    "control/test_observed_router.py": (
        "frames go in, answers come out or not",
        """
        control/traffic/answers control/traffic/disturb control/traffic/exchange control/traffic/faults
        control/traffic/frames
        """,
    ),
    "control/proxy/test_proxy.py": (
        "clients go through it",
        """
        cli/proxy control/proxy/addresses control/proxy/forwarding control/proxy/serving control/proxy/upstream
        """,
    ),
    "control/traffic/test_capture.py": (
        "captures are made byte by byte",
        """
        control/traffic/packets
        """,
    ),
    "control/test_openapi.py": (
        "makes up requests from it",
        """
        control/api/document
        """,
    ),
    "control/test_topics.py": (
        "asks for them through the control API",
        """
        control/api/topics testing/controlled
        """,
    ),
    "control/test_records.py": (
        "writes and reads through it",
        """
        control/api/records control/bytes_in_json control/reading testing/data testing/record
        """,
    ),
    "control/test_seeding.py": (
        "seeds and dumps by it",
        """
        control/api/seeding
        """,
    ),
    "control/test_clock.py": (
        "moves it",
        """
        control/api/clock server/movable_clock testing/clock
        """,
    ),
    "control/test_state.py": (
        "resets, keeps and restores brokers with connected clients",
        """
        control/api/state control/kept testing/state
        """,
    ),
    "control/test_groups.py": (
        "asks for groups of real clients",
        """
        control/api/groups control/groups_view
        """,
    ),
    "control/test_waits.py": (
        "waits for what a thread does meanwhile",
        """
        control/api/waits control/topic_watch testing/waits testing/handle
        """,
    ),
    "broker/api/test_admin.py": (
        "asks for each of them through the router",
        """
        broker/api/create_partitions broker/api/create_topics
        broker/api/delete_topics broker/api/describe_log_dirs
        broker/api/metadata broker/api/quorum_members broker/api/update_features broker/api/user_scram_credentials
        broker/context cluster/bootstrap
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
        broker/partition_reader
        """,
    ),
    "broker/api/test_like_kafka.py": (
        "compares every answer with Kafka's",
        """
        broker/api/alter_configs broker/api/api_versions broker/api/broker_loggers
        broker/api/client_quotas broker/api/describe_cluster broker/api/describe_configs broker/api/describe_quorum
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
        broker/api/group_protocols broker/api/streams_group_describe broker/api/streams_group_heartbeat
        """,
    ),
    "tools/test_consumer_groups.py": (
        "runs the tool, also against older brokers",
        """
        client/group_description client/group_offsets
        tools/consumer_group_tables tools/group_table tools/group_deletions tools/group_failures tools/group_options
        tools/group_resets
        tools/reset_offsets tools/topic_partitions
        """,
    ),
    "tools/test_share_groups.py": (
        "runs the tool",
        """
        client/share_groups
        """,
    ),
    "tools/test_console_share_consumer.py": (
        "reads as one member after the other",
        """
        client/share_consumer client/share_membership
        """,
    ),
    "tools/test_streams_groups.py": (
        "runs the tool",
        """
        client/streams_groups tools/streams_group_tables
        """,
    ),
    "tools/test_get_offsets.py": (
        "runs the tool, also against older brokers",
        """
        client/leaders client/offsets
        """,
    ),
    "tools/test_acls.py": (
        "adds, lists and removes some",
        """
        client/acls tools/acl_flags
        """,
    ),
    "tools/test_delegation_tokens.py": (
        "makes, renews and ends one",
        """
        client/delegation_tokens client/principals
        """,
    ),
    "tools/test_transactions.py": (
        "asks about one that is open",
        """
        client/transactions tools/columns tools/hanging
        """,
    ),
    "tools/test_console.py": (
        "what is sent and printed",
        """
        tools/console_consumer tools/console_output tools/console_producer tools/line_reader
        tools/properties_of tools/record_text
        """,
    ),
    "tools/test_small_tools.py": (
        "runs them against a broker",
        """
        client/features client/quorum
        tools/broker_api_versions tools/client_metrics tools/features tools/groups tools/metadata_quorum
        """,
    ),
    "tools/test_configs.py": (
        "runs the tool that it is of against a broker",
        """
        client/groups client/quotas client/scram
        tools/config_changes tools/config_description tools/config_entities
        """,
    ),
    "tools/test_topics.py": (
        "runs the tool that it is of against a broker",
        """
        client/configs client/topics
        tools/topic_description
        """,
    ),
    "client/test_producer.py": (
        "sends records with them",
        """
        client/batches client/topology client/producer_id client/producer_settings
        """,
    ),
    "packaging/test_container.py": (
        "starts what the image would start",
        """
        cli/healthy testing/container
        """,
    ),
    "client/test_group_consumer.py": (
        "members of groups by both protocols",
        """
        client/epoch_membership client/group_settings client/membership
        """,
    ),
    "client/test_consumer.py": (
        "reads records with them",
        """
        client/consumer_settings client/fetched
        """,
    ),
    "cli/test_completion.py": (
        "asks for the words of every parser",
        """
        cli/parsers
        """,
    ),
    "tools/test_verifiable.py": (
        "runs them against a broker",
        """
        tools/events tools/verifiable_consumer tools/verifiable_producer
        """,
    ),
    "tools/test_perf_tests.py": (
        "runs them against a broker",
        """
        tools/consumer_perf_test tools/end_to_end_latency tools/producer_perf_test tools/statistics
        """,
    ),
    "tools/test_reassign_partitions.py": (
        "moves partitions, with throttles",
        """
        client/reassignments tools/moves tools/reassignment_plan tools/throttles
        """,
    ),
    "tools/test_mirror.py": (
        "mirrors one broker to another, in a process of its own",
        """
        tools/mirror_flow tools/mirror_groups tools/mirror_records
        """,
    ),
    "cli/test_settings.py": (
        "mistypes them",
        """
        cli/commands
        """,
    ),
    "broker/test_group_host.py": (
        "works on a whole broker",
        """
        broker/broker
        """,
    ),
    "broker/test_power_cuts.py": (
        "cuts the power in the middle of transactions",
        """
        broker/transaction_markers
        """,
    ),
    "broker/test_router.py": (
        "raises it in handlers",
        """
        errors
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
        server/__init__ server/serving tools/__init__
        """,
    ),
    "cluster/test_controller.py": (
        "sends the requests to the controller",
        """
        cluster/config_changes cluster/config_rules cluster/feature_updates
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
        cluster/quorum_state cluster/snapshot
        """,
    ),
    "cluster/test_topics.py": (
        "creates topics of each kind",
        """
        cluster/internal_topics
        """,
    ),
    "config/test_describe.py": (
        "describes every key",
        """
        config/registry
        """,
    ),
    "coordinators/groups/test_assignors.py": (
        "assigns with both assignors",
        """
        coordinators/groups/assignors/range_assignor coordinators/groups/assignors/spec
        coordinators/groups/assignors/uniform_assignor
        """,
    ),
    "coordinators/groups/test_classic.py": (
        "walks a group at random through its states",
        """
        coordinators/effects coordinators/groups/classic_rebalance
        """,
    ),
    "coordinators/groups/test_consumer.py": (
        "has members of the consumer protocol come and go",
        """
        coordinators/groups/consumer_change coordinators/groups/consumer_group
        coordinators/groups/consumer_stored
        coordinators/groups/reconciliation
        """,
    ),
    "coordinators/groups/test_offsets.py": (
        "commits and reads offsets",
        """
        coordinators/groups/offset_requests coordinators/groups/records coordinators/groups/stored
        """,
    ),
    "coordinators/groups/test_re2.py": (
        "compares with Python's `re`",
        """
        coordinators/groups/re2/charset coordinators/groups/re2/match coordinators/groups/re2/parse
        """,
    ),
    "coordinators/groups/test_topic_hash.py": (
        "compares with Kafka's hashes",
        """
        coordinators/groups/xxh3
        """,
    ),
    "coordinators/share/test_membership.py": (
        "has members come and go",
        """
        coordinators/groups/group coordinators/groups/topics coordinators/share/group_records
        coordinators/share/share_group
        """,
    ),
    "coordinators/share/test_share_partition.py": (
        "acquires and acknowledges in any order",
        """
        coordinators/share/acquisition coordinators/share/in_flight
        """,
    ),
    "coordinators/share/test_state.py": (
        "writes and reads the records",
        """
        coordinators/share/state_records
        """,
    ),
    "coordinators/streams/test_restart.py": (
        "has members come and go, with a restart in between",
        """
        coordinators/streams/change coordinators/streams/group coordinators/streams/protocol
        coordinators/streams/reconciliation coordinators/streams/tasks
        """,
    ),
    "coordinators/transactions/test_init_producer_id.py": (
        "takes the first of them",
        """
        coordinators/transactions/steps
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
        log/compaction/filter log/compaction/swap log/compaction/transactions
        """,
    ),
    "log/compaction/test_cleaner.py": (
        "has the cleaner at work",
        """
        log/compaction/job log/segment_files
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
        log/log_directory log/opening
        """,
    ),
    "log/test_full_disk.py": (
        "has a real disk that runs full",
        """
        log/filesystem
        """,
    ),
    "log/test_closing.py": (
        "leaves directories with many logs that were written to",
        """
        log/syncfs
        """,
    ),
    "log/test_index.py": (
        "has all indexes of a segment",
        """
        log/transaction_index
        """,
    ),
    "log/test_manager.py": (
        "starts, keeps up and ends a broker's logs",
        """
        log/jobs
        """,
    ),
    "log/test_partition_log.py": (
        "writes and reads a log",
        """
        log/producer_loading
        """,
    ),
    "log/test_producer_state.py": (
        "writes and reads the snapshot",
        """
        log/producer_snapshot
        """,
    ),
    "log/test_recovery.py": (
        "loads logs after crashes",
        """
        log/loading log/pool
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
        log/scan log/tool/command log/tool/decoding log/tool/directory log/tool/dump log/tool/folders
        log/tool/metadata log/tool/repair
        """,
    ),
    "broker/test_damage.py": (
        "takes senseless records out of coordinators' logs",
        """
        log/tool/senseless
        """,
    ),
    "log/tool/test_tool.py": (
        "finds and repairs each kind of damage",
        """
        log/tool/abort_markers log/tool/verify
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
        records/alike
        records/common_form
        """,
    ),
    "records/test_compression.py": (
        "reads and bounds every codec",
        """
        records/decompression
        """,
    ),
    "scenarios/groups/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/consumer_group_describe broker/api/consumer_group_heartbeat broker/api/delete_groups
        broker/api/describe_groups broker/api/group_describe broker/api/heartbeat broker/api/join_group
        broker/api/leave_group broker/api/list_groups broker/api/offset_commit broker/api/offset_delete
        broker/api/offset_fetch broker/api/sync_group coordinators/groups/classic_group
        coordinators/groups/classic_join coordinators/groups/member_requests
        coordinators/groups/consumer_classic
        coordinators/groups/consumer_protocol coordinators/groups/coordinator
        coordinators/groups/epoch_group coordinators/groups/migration
        coordinators/streams/checks coordinators/streams/listing
        coordinators/streams/topology
        """,
    ),
    "scenarios/share/test_against_kafka.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/alter_share_group_offsets broker/api/delete_share_group_offsets
        broker/api/describe_share_group_offsets broker/api/share_acknowledge broker/api/share_fetch
        broker/api/share_group_describe broker/api/share_group_heartbeat broker/api/share_group_offsets
        broker/api/share_requests broker/share_partitions
        """,
    ),
    "scenarios/transactions/test_answers.py": (
        "compares with what Kafka answered to the same steps",
        """
        broker/api/add_offsets_to_txn broker/api/add_partitions_to_txn broker/api/describe_producers
        broker/api/describe_transactions broker/api/end_txn broker/api/find_coordinator broker/api/init_producer_id
        broker/api/list_transactions broker/api/txn_offset_commit broker/api/write_txn_markers
        coordinators/transactions/verdicts
        broker/produce_joining
        """,
    ),
    "server/test_link_security.py": (
        "links reach brokers that have them",
        """
        server/tls_client
        """,
    ),
    "server/test_link.py": (
        "connects to a peer of the test's",
        """
        server/dial server/link_codec peers server/link_peers server/link_settings
        """,
    ),
    "server/test_server.py": (
        "connects to a server",
        """
        server/channel server/connection server/turns
        """,
    ),
    "testing/test_pytest_plugin.py": (
        "runs pytest with it",
        """
        pytest_plugin testing/fixtures testing/installed_client
        """,
    ),
    "testing/test_cluster_dialect.py": (
        "does all that a cluster can, in both forms",
        """
        testing/cluster_nodes testing/cluster_traffic testing/differences testing/asynchronous_cluster
        """,
    ),
    "testing/test_asynchronous.py": (
        "imports from it, and awaits all that a broker can",
        """
        testing/__init__ testing/async_client testing/async_waits testing/remote
        """,
    ),
}
