"""The typed configuration: what every other package of the member is given."""
