"""How the global batch is split among ranks of unequal speed.

balance   measured speeds to splits, identically on every rank
wording   splits and slow ranks as sentences
"""
