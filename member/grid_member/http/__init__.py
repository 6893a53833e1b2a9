"""The member's REST interface over aiohttp: one routing table, two kinds of listener."""
