"""Who may call: realms, credentials, the slow-down after failures, the audit log, and TLS."""
