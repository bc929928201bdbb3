"""Federated rounds: replies of clients in, the server's next state out; whatever the framework that carries them."""

from .federation import Federation
from .records import LeftOut, Reply, Round

__all__ = ["Federation", "LeftOut", "Reply", "Round"]
