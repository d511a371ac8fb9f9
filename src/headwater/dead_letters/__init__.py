"""Dead letters: changes that a sink will never take, kept aside whole until a person retries or drops them."""

from headwater.dead_letters.letter import Letter
from headwater.dead_letters.sink import DeadLetterSink, RetryingSink
from headwater.dead_letters.store import DeadLetters

__all__ = ["DeadLetterSink", "DeadLetters", "Letter", "RetryingSink"]
