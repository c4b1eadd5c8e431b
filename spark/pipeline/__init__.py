"""A data pipeline on Spark: files to topics, topics to tables, and back, restartable and observable.

Rule: a job is one module with `run(spark, settings)`; what differs between machines, clusters and data is a setting.
"""
