"""What a school can do without. A feature is a folder here, with all that belongs to it, and a line below.

Without the folder and the line, Rollbook has no such feature. Nothing outside imports from a feature's folder; what a
feature adds is asked of its `Feature` (`rollbook.feature`), which the folder's `__init__.py` defines as FEATURE.
`rollbook.assembly` opens an institution with the features that are there.
"""

# In this order they learn of a night, and their lines are shown.
FEATURES = (
    "pseudonymous",
    "morning",
    "pages",
    "export",
    "feed",
    "lists",
    "notebook",
    "why",
    "thresholds",
    "explore",
    "share",
    "district",
    "mirror",
    "alerts",
)
