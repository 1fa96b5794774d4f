"""Rollbook's tests: the folders mirror pipelines/, a test's name or docstring says what must hold."""
