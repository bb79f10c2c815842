"""The tests that flags and gate files declare. All derive from
:class:`~pytest_genderbias.plugin.items.bias_item.BiasItem`.
"""
