"""The commands over several institutions: `rollbook fleet`."""
