"""What decides which solution a neural network learns: models, potentials, flows and their comparison.

Import the module you need (``from regimes import potentials``); the package itself loads nothing.
"""
