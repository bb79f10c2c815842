"""Gates: verdicts on measurements, by a limit, a stored baseline, or another model of the run.

In: a :class:`~pytest_genderbias.measurement.measurement.Measurement` and what it is compared with. Out: a
:class:`~pytest_genderbias.gates.judgement.Judgement` with its text, which does not depend on what was judged before.
``assertions.py`` applies the policy of the run, records each judgement and raises
:class:`~pytest_genderbias.errors.GateFailure`. Users, mitigation, reports and the plugin call this room. It prints nothing and does not
import pytest.
"""
