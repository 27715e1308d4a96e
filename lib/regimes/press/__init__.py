"""The press: reads the chapters, executes them, keeps their runs, builds the site.

No module of the science imports it, and importing the package itself loads nothing.
"""
