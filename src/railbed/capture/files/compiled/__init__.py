"""The second engine: packet by packet, compiled by numba, which is needed nowhere else.

The order of its tests is that of the numpy engine, so that a packet is left out for the same reason.
"""
