"""A Flower app: clients that have seen some of ten digits, and a server that matches their networks."""
