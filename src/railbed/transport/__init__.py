"""The only code that connects to devices: local, SSH and replay; `record` stores what any of them returns, and
`recent` answers with what was read a moment ago."""
