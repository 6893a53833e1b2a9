"""Files, directories, certificates and listening sockets, and the errors that they make."""
