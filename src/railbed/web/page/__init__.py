"""The live page of a run: one time axis from loss to queue depth. Read `app.py` first.

`app.py` has the addresses, `source.py` reads the run, `catalogue.py` numbers its series, `live.py` sends new points;
`static/` is the page itself. `railbed.present.charts` says what is drawn together.
"""

from railbed.web.page.app import page_app

__all__ = ["page_app"]
