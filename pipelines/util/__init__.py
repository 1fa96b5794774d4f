"""What knows nothing of Rollbook: files, text, cron lines, this machine, and the guard of a web app."""
