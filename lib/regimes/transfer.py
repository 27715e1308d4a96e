"""Pretraining, finetuning and multi-task learning of diagonal networks, at the end of training (B).

Gradient flow's end is known exactly for each procedure, so that nothing here is trained. The procedures go by
the names of the paper's figures: "STL" (single-task learning), "MTL" (both tasks at once), "PT+FT"
(pretraining, then finetuning), and "PT+FT (LP)", "STL (LP)" where only the readout is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from regimes.flow import dual_flow
from regimes.interpolate import Interpolant, interpolate, minimum_l2
from regimes.models import DiagonalNetwork
from regimes.potentials import Hypentropy, ImplicitMultiTask, Separable
from regimes.tasks import TransferTask

Array = np.ndarray

PROCEDURES = ("STL", "MTL", "PT+FT", "PT+FT (LP)", "STL (LP)")


def carried(start: DiagonalNetwork, predictor: Array) -> DiagonalNetwork:
    """The network that gradient flow from ``start`` is when its predictor is ``predictor`` (..., d).

    u ± v of each branch grow and decay as exp(±R), and the predictor (√k/2) sinh(2R + c) is monotone in R
    (A, Theorem 1), so that it names R, whatever the data and the loss are. Pretraining ends here once it has
    found the auxiliary teacher (B, Corollary 2, for a network that was really trained). Raises ValueError
    where the start cannot move (k = 0).
    """
    R = Hypentropy.from_network(start).gradient(predictor)
    weights = []
    for u, v, sign in ((start.u_plus, start.v_plus, 1), (start.u_minus, start.v_minus, -1)):
        grown, decayed = (u + v) * np.exp(sign * R), (u - v) * np.exp(-sign * R)
        weights += [(grown + decayed) / 2, (grown - decayed) / 2]
    return DiagonalNetwork(*weights)


def rehead(network: DiagonalNetwork, gamma: float | Array) -> DiagonalNetwork:
    """The ``network`` with a new readout ``gamma`` on both branches, as finetuning starts."""
    return DiagonalNetwork(network.u_plus, gamma, network.u_minus, gamma)


def rescaled(network: DiagonalNetwork, factor: Array) -> DiagonalNetwork:
    """All weights times ``factor``, whose shape (...) is that of the settings."""
    c = np.asarray(factor, float)[..., None]
    return DiagonalNetwork(
        *(c * w for w in (network.u_plus, network.v_plus, network.u_minus, network.v_minus))
    )


def start(
    procedure: str,
    task: TransferTask,
    *,
    scale: float | Array = 1.0,
    alpha: float = 1e-3,
    gamma: float = 1e-3,
) -> DiagonalNetwork:
    """The network that begins to learn the main task, of shape (seeds..., settings..., d).

    Single-task learning begins at ``alpha`` in all weights. Finetuning begins with the hidden weights that
    pretraining from ``alpha`` to the auxiliary teacher left, and a readout ``gamma``. Before the main task
    all weights are multiplied by ``scale`` (settings...), the paper's weight rescaling. Raises ValueError
    for another procedure, which no such network describes.
    """
    scale = np.asarray(scale, float)
    fresh = DiagonalNetwork.tied(alpha, task.w_star.shape[-1])
    if procedure.startswith("STL"):
        return rescaled(fresh, scale)
    if procedure.startswith("PT+FT"):
        pretrained = carried(fresh, task.expand(scale.ndim).w_aux)
        return rescaled(rehead(pretrained, gamma), scale)
    raise ValueError(f"procedure = {procedure!r}, but a start belongs to STL or PT+FT only")


def potential(procedure: str, task: TransferTask, **settings: float | Array) -> Separable:
    """The potential that the procedure minimizes among the interpolants of the main task.

    For "STL" and "PT+FT" that of :func:`start`, whose ``settings`` it takes; for "MTL" the implicit one of a
    network that is fitted to the auxiliary task first, with a vanishing start ``alpha`` (there is no moment
    at which to rescale: ``scale`` must be 1). Raises ValueError for another procedure.
    """
    if procedure != "MTL":
        return Hypentropy.from_network(start(procedure, task, **settings))
    scale, alpha = np.asarray(settings.get("scale", 1.0)), settings.get("alpha", 1e-3)
    if (scale != 1).any():
        raise ValueError(f"scale = {scale}, but multi-task learning has one phase: nothing is rescaled")
    return ImplicitMultiTask.from_start(task.expand(scale.ndim).w_aux, alpha)


def limit(procedure: str, task: TransferTask, *, tolerance: float = 1e-9, **settings: float) -> Interpolant:
    """Where gradient flow of the procedure ends on the main task, of shape (seeds..., settings..., d).

    ``settings`` are those of :func:`start`. A linear probe ends at the interpolant nearest to its start in
    the metric of its features, which is a least-squares problem; the others end at the minimizer of
    :func:`potential`. Raises ValueError for an unknown procedure.
    """
    if procedure not in PROCEDURES:
        raise ValueError(f"procedure = {procedure!r}, but must be one of {', '.join(PROCEDURES)}")
    scale = np.ndim(settings.get("scale", 1.0))
    each = task.expand(scale)
    if procedure.endswith("(LP)"):
        return probe(start(procedure, task, **settings), each.X, each.y)
    return interpolate(each.X, each.y, potential(procedure, task, **settings), tolerance=tolerance)


def features(network: DiagonalNetwork) -> Array:
    """u₊² + u₋², the metric of a linear probe: how fast a readout moves each weight of the predictor."""
    return network.u_plus**2 + network.u_minus**2


def probe(network: DiagonalNetwork, X: Array, y: Array) -> Interpolant:
    """The end of training the readout alone: the least Σ (w − w₀)²/(u₊² + u₋²) with Xᵀw = y.

    ``X`` (..., d, N) and ``y`` (..., N) broadcast with the ``network``, whose predictor is w₀. Values,
    residual and multipliers are those of the equal problem of least norm in (w − w₀)/√(u₊² + u₋²).
    """
    root, w0 = np.sqrt(features(network)), network.predictor
    y = y - (w0[..., None, :] @ X)[..., 0, :]
    found = minimum_l2(root[..., None] * X, y)
    return replace(found, solution=w0 + root * found.solution)


def least_error(
    procedure: str, task: TransferTask, end: Interpolant, *, depth: float = 1e-4, **settings: float
) -> Array:
    """The least population error at any moment of training, which only an oracle could stop at.

    The flow is followed while its training loss falls by ``depth``, with 16 looks, and ``end``, the result of
    :func:`limit` with the same ``settings``, is the last one. Shape (seeds..., settings...).
    """
    axes = np.ndim(settings.get("scale", 1.0))
    each = task.expand(axes)
    if procedure.endswith("(LP)"):
        path = _probe_path(start(procedure, task, **settings), each.X, each.y, depth)
    else:
        levels = np.square(task.y).mean(-1).max() * np.geomspace(1, depth, 16)
        driving = potential(procedure, task, **settings)
        with np.errstate(over="ignore", invalid="ignore"):  # steps that are tried, and refused
            flow = dual_flow(each.X, each.y, driving, levels=levels, stop_loss=levels[-1], rtol=3e-2)
        path = flow.predictors
    return _nearest(np.concatenate([path, end.solution[..., None, :]], -2), each.w_star)


def _nearest(path: Array, target: Array) -> Array:
    """The least squared distance from ``target`` (..., d) to the polygon through ``path`` (..., L, d)."""
    away, along = path - target[..., None, :], np.diff(path, axis=-2)
    size = np.square(along).sum(-1)
    part = -(away[..., :-1, :] * along).sum(-1) / np.where(size > 0, size, 1.0)
    foot = away[..., :-1, :] + np.clip(part, 0, 1)[..., None] * along
    return np.square(foot).sum(-1).min(-1)


def _probe_path(network: DiagonalNetwork, X: Array, y: Array, depth: float) -> Array:
    """Predictors (..., 16, d) of a readout's flow, in closed form in the eigenvectors of its kernel."""
    stretch, w0 = features(network), network.predictor
    size, modes = np.linalg.eigh(np.swapaxes(X, -1, -2) @ (stretch[..., None] * X))
    residual = ((y - (w0[..., None, :] @ X)[..., 0, :])[..., None, :] @ modes)[..., 0, :]
    times = np.geomspace(0.1 / size[..., -1], -np.log(depth) / size[..., 0], 15, axis=-1)
    times = np.concatenate([0 * times[..., :1], times], -1)
    shrunk = -np.expm1(-times[..., None] * size[..., None, :]) / size[..., None, :]
    force = (shrunk * residual[..., None, :]) @ np.swapaxes(modes, -1, -2)
    return w0[..., None, :] + stretch[..., None, :] * (force @ np.swapaxes(X, -1, -2))


def sweep(
    procedure: str, task: TransferTask, scales: Sequence[float] = (1.0,), *, oracle: bool = False, **settings
) -> dict[str, Array]:
    """Errors of one procedure at several ``scales``: a table of arrays of shape (seeds, scales).

    ``error`` is the population error at the end of training, ``least`` that of :func:`least_error` (only with
    ``oracle``), both divided by that of the predictor zero; ``converged`` says whether the end was found.
    ``settings`` are alpha and gamma of :func:`start`.
    """
    settings = {"scale": np.asarray(scales, float), **settings}
    end = limit(procedure, task, **settings)
    size = np.square(task.w_star).sum(-1)[..., None]
    table = {
        "error": task.population_error(end.solution) / size,
        "converged": np.broadcast_to(end.converged, end.solution.shape[:-1]),
    }
    if oracle:
        table["least"] = least_error(procedure, task, end, **settings) / size
    return table


def forgetting(task: TransferTask, finetuned: Array, **settings: float) -> Array:
    """The auxiliary error after finetuning to ``finetuned``, with the auxiliary readout put back.

    The hidden weights are those that finetuning left, the readout that of the pretrained network; the error
    is relative to the predictor zero, and the weights before finetuning are not rescaled. ``settings`` are
    alpha and gamma of :func:`start`, ``finetuned`` has shape (seeds..., d). Returns (seeds...).
    """
    before = carried(DiagonalNetwork.tied(settings.get("alpha", 1e-3), task.w_aux.shape[-1]), task.w_aux)
    after = carried(start("PT+FT", task, **settings), finetuned)
    w = after.u_plus * before.v_plus - after.u_minus * before.v_minus
    return np.square(w - task.w_aux).sum(-1) / np.square(task.w_aux).sum(-1)
