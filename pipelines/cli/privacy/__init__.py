"""The data-protection officer's commands."""
