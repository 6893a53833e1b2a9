"""The directory of a store: its identity, its manifest, its exchange for another one."""
