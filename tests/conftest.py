"""What holds for all tests here."""

from hypothesis import HealthCheck, settings

# A busy machine is no defect: generated examples have no deadline of their own, pytest's time-out ends what hangs.
settings.register_profile("everywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("everywhere")
