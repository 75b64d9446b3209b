"""What BMCs report, as text of ipmitool or as JSON of Redfish, in one form. Read `facts.py` first."""
