"""What every test runs under."""

from hypothesis import HealthCheck, settings

# The same examples in every run, so that a red build is about the change in it. Deadlines are off: the
# machines are shared, and the tests that care about time say so themselves.
settings.register_profile(
    "toolyard",
    derandomize=True,
    deadline=None,
    max_examples=100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("toolyard")
