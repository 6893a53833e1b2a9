"""The command line tool for people."""
