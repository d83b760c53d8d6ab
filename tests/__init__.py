"""The checker put around every function of the package while tests run: `float` takes an int, as in PEP 484."""

from beartype import BeartypeConf, beartype

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))
