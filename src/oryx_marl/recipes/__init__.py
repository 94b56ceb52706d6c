"""Datasets that can be made, one file per family of environments.

A file has `FAMILIES`, the families of datasets that are listed, and `find_family(name)`, the
recipes of one by the name of the variant, empty where it is none of its own.
"""
