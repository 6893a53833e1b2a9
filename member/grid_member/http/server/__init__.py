"""Listeners: who may connect, and which operation a request is answered by."""
