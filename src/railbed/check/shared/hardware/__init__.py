"""What rules about links, PCIe and firmware of cards share: names of codes, limits, what applies to which machine.

Read `optics.py` first.
"""
