"""Gates: the verdict on a measurement, by a limit, a stored baseline or another model.

Measurements come in, judgements go out. A judgement depends on the measurement and the gate only. What a verdict does
to a test is the policy of the run (``policy``), which ``assertions.settle`` applies and records, and nothing else does.
The way of a baseline entry is ``baseline`` (which entry) -> ``book`` and ``item_file`` (its files, which
``book_update`` writes) -> ``agreement`` (may it be compared) -> ``regression`` (difference and verdict) ->
``judgement`` (text). It reads measurements, suites and statistics, and of models only their specs and roles.
It knows neither models in memory nor pytest.
"""
