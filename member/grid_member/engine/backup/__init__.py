"""Writing, finding, restoring and salvaging backups."""
