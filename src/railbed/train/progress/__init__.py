"""The messages of the ranks as records. Read `records.py` first.

records    one message of a rank as measurements and events
phases     what the ranks do between steps
idle       how long each rank waited for slower ones
downtime   what each restart cost
outcome    what a finished run lost meanwhile
"""
