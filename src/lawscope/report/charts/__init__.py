"""Every kind of chart, drawn once: as SVG for page and notebook, in matplotlib for .plot()."""
