"""A backend for matplotlib that draws into memory. `show()` gives the figures to the notebook, and closes them."""

import sys

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas  # noqa: F401

# In a process that the code has started there is no notebook to show them in.
show = getattr(sys.modules.get("_notebook"), "show_figures", lambda *arguments, **options: None)
