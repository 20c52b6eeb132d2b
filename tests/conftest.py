"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("ninja", deadline=None)  # a busy machine must not fail a test
settings.load_profile("ninja")
