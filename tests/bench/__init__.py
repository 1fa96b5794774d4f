"""The cost of Rollbook, measured against a bare walk over the same service in the same run. Run by `make bench`."""
