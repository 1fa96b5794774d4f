"""What listens to a night and makes something of it: the morning page, alerts, the copy in an object store."""
