"""The messages of the ranks as records. Read `records.py` first.

records  one message of a rank as measurements and events
steps    what the ranks do between steps; how long each rank waited for slower ones; what each restart cost; what a
         finished run lost meanwhile
"""
