"""The log of a member that is alone, on its disk: a write-ahead log before LMDB."""
