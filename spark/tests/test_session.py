"""What the session sets by itself: nothing that only holds on a laptop reaches a cluster."""

import pytest

from pipeline.session import CHECKPOINT_FILES, defaults
from pipeline.settings import Settings


@pytest.mark.parametrize(("master", "on_loopback"), [("local[*]", True), ("spark://head:7077", False), ("yarn", False)])
def test_the_driver_of_a_cluster_is_not_on_loopback(master: str, on_loopback: bool) -> None:
    assert ("spark.driver.host" in defaults(Settings(), master)) == on_loopback


@pytest.mark.parametrize(
    ("data_dir", "local"),
    [
        ("pipeline-data", True),
        ("/var/data", True),
        ("file:///data", True),
        ("s3a://lake", False),
        ("hdfs:/x", False),
    ],
)
def test_checkpoints_elsewhere_are_left_to_spark(data_dir: str, local: bool) -> None:
    assert (CHECKPOINT_FILES in defaults(Settings(data_dir=data_dir), "local[*]")) == local
