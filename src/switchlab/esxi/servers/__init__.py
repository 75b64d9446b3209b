"""SSH, and the control socket."""
