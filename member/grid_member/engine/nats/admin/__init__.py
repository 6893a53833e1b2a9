"""Asking servers about their streams, groups and peers, and telling them what to change."""
