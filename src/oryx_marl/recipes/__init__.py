"""How datasets are made: one file per family of environments, and any policy's episodes.

A file has `FAMILIES`, the families of datasets that are listed, and `find_family(name)`, the
recipes of one by the name of the variant, empty where it is none of its own.
"""

from oryx_marl.recipes._making import (
    find,
    is_made_quickly,
    make,
    make_from_policy,
    names,
    open,
    open_for_training,
    require,
    require_assets,
    usual_rows,
    view,
)

__all__ = [
    "find",
    "is_made_quickly",
    "make",
    "make_from_policy",
    "names",
    "open",
    "open_for_training",
    "require",
    "require_assets",
    "usual_rows",
    "view",
]
