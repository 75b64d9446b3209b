"""The live page of a run: one time axis from loss to queue depth. Read `app.py` first.

`app.py` has the addresses, `source.py` reads the run, `charts.py` says what is drawn together, `live.py` sends new
points; `static/` is the page itself.
"""

from railbed.web.page.app import page_app

__all__ = ["page_app"]
