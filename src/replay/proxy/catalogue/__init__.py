"""The entries of the catalogue of failures, grouped by what goes wrong; :mod:`replay.proxy.failures` lists them."""
