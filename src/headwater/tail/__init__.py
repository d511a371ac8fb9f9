"""The tail: a small process of its own that drains one log into one journal.

Of its own, because a thread in Spark's planner fights it for the GIL, and because it must keep draining
while Spark is busy or down. No pyspark in here.
"""

from headwater.tail.process import TailProcess, tail_state

__all__ = ["TailProcess", "tail_state"]
