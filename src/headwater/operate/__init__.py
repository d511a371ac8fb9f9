"""For the person on call: verify that a lake equals its source."""
