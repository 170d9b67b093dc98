"""Stand-alone scripts, one per family of peers, which ``dechbo.bench.peers`` starts in the peer's own environment.

A script imports ``peer_protocol`` (standard library only) and the peer's packages, never dechbo. Tests: test_peers.py.
"""
