"""The parts of the charts that come from the API types."""
