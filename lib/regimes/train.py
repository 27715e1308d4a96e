"""Gradient descent in practice: plain, full batch, with a finite step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch

from regimes._batches import batch_of, check_width, checked_data, groups, loss_levels
from regimes.models import DiagonalNetwork
from regimes.multitask import MultiOutputNetwork, Task

Array = np.ndarray
Tensor = torch.Tensor


class TrainOutcome(Enum):
    """How a training ended, in words to act on."""

    REACHED_LOSS = "reached the stated loss"
    STEP_LIMIT = "step limit reached before the stated loss: allow more steps"
    DIVERGED = "diverged: the loss grew a millionfold or is no number; take a smaller step"


@dataclass(frozen=True, eq=False)
class Training:
    """The trained ``network`` and the checkpoints on its way, with the batch's leading axes first.

    When the loss was first at or below each of the ``levels`` (L,): the number of ``steps_at`` (..., L) and
    the ``predictors`` (..., L, d); −1 and NaN where that never happened. In the end: ``steps``, ``loss`` and
    ``outcome`` of shape (...). The network of a diverged training is the one before its loss got out of hand.
    """

    network: DiagonalNetwork
    steps: Array
    loss: Array
    levels: Array
    steps_at: Array
    predictors: Array
    outcome: Array

    @property
    def solution(self) -> Array:
        """The linear predictor at the end, shape (..., d)."""
        return self.network.predictor

    @property
    def reached(self) -> Array:
        """Whether each training came down to the stated loss."""
        return self.outcome == TrainOutcome.REACHED_LOSS


def step_limit(network: DiagonalNetwork, X: Array) -> Array:
    """The step above which gradient descent is unstable around ``network``: 2/λmax of its tangent kernel.

    The kernel is Xᵀ diag(u₊² + v₊² + u₋² + v₋²) X/N, the diagonal being √k for an unbiased start. ``X`` has
    shape (..., d, N), and its leading axes broadcast with those of the ``network``. A step just above the
    limit may still reach zero loss, but at another solution than gradient flow's. To stay
    below it is necessary, not sufficient: the kernel grows with the weights, so look at the trained network's
    limit too.
    """
    X = np.asarray(X, float)
    weights = (network.u_plus, network.v_plus, network.u_minus, network.v_minus)
    stretch = sum(w**2 for w in weights)
    batch = np.broadcast_shapes(stretch.shape[:-1], X.shape[:-2])
    limits = np.empty(batch)
    X, stretch = (np.broadcast_to(a, batch + a.shape[-n:]) for a, n in ((X, 2), (stretch, 1)))
    for i in np.ndindex(*batch):
        root = np.sqrt(stretch[i])[:, None] * X[i]
        limits[i] = 2 * X.shape[-1] / np.linalg.eigvalsh(root.T @ root)[-1]
    return limits[()]


def gradient_descent(
    network: DiagonalNetwork,
    X: Array,
    y: Array,
    *,
    step: float,
    stop_loss: float,
    max_steps: int = 1_000_000,
    levels: Sequence[float] = (),
    allow_unstable: bool = False,
    train_hidden: bool = True,
    dtype: torch.dtype = torch.float64,
    device: str | torch.device = "cpu",
) -> Training:
    """Train the four weight vectors of a diagonal network on ‖y − Xᵀw̃‖²/(2N) with a fixed ``step``.

    ``X`` has shape (..., d, N), ``y`` (..., N); the leading axes of both and of the ``network`` broadcast,
    and settings that share X train as one batch of matrix products. Each training stops once its loss is at
    or below ``stop_loss``, after ``max_steps``, or when it diverges. Raises ValueError for shapes that do not
    fit, and for a step above :func:`step_limit` at the start unless ``allow_unstable``. With ``train_hidden``
    false u stays what it was, and only the readout v learns (linear probing).
    """
    X, y = checked_data(X, y)
    d = X.shape[-2]
    weights = np.stack([network.u_plus, network.v_plus, network.u_minus, network.v_minus], -2)
    check_width(weights.shape[-1], d, "the network's weights")
    batch = batch_of(X, y, weights.shape[:-2])
    if not (np.isfinite(step) and step > 0):
        raise ValueError(f"step = {step!r}, but must be positive and finite")
    if not allow_unstable:
        _refuse_unstable(step, step_limit(network, X))
    levels = loss_levels(levels, stop_loss)
    weights = np.broadcast_to(weights, (*batch, 4, d)).reshape(-1, 4, d)
    run = _Run(weights, levels, train_hidden, dtype, device)
    for matrix, labels, places in groups(X, y, batch):
        run.descend(matrix, labels, places, step, max_steps)
    return run.result(batch, levels)


@dataclass(frozen=True, eq=False)
class MultiTaskTraining:
    """The trained ``network``, the ``loss`` of every task, the number of ``steps`` and the ``outcome``."""

    network: MultiOutputNetwork
    loss: Array
    steps: int
    outcome: TrainOutcome


def multitask_descent(
    network: MultiOutputNetwork,
    tasks: Sequence[Task],
    weights: Sequence[float] = (1.0, 1.0),
    *,
    step: float,
    stop_loss: float,
    max_steps: int = 1_000_000,
) -> MultiTaskTraining:
    """Train all weights of a network with several outputs on Σₒ weightₒ Lₒ with a fixed ``step``.

    The losses are those of :func:`regimes.multitask.multitask_flow`, for tasks X (d, N), y (N,) with N ≤ d.
    Training stops when their sum is at or below ``stop_loss``, after ``max_steps``, or when it diverges.
    Raises ValueError for shapes that do not fit, and a step that is not positive and finite.
    """
    if not (np.isfinite(step) and step > 0):
        raise ValueError(f"step = {step!r}, but must be positive and finite")
    pairs = [checked_data(X, y) for X, y in tasks]
    for X, _ in pairs:
        check_width(network.w_plus.shape[-1], X.shape[0], "the network's weights")
    if not len(pairs) == len(weights) == len(network.v_plus):
        counts = f"{len(pairs)} tasks, {len(weights)} weights and {len(network.v_plus)} outputs"
        raise ValueError(f"{counts}: one of each is needed")
    net, ceiling = network, np.inf
    for count in range(max_steps + 1):
        residuals = [y - beta @ X for beta, (X, y) in zip(net.predictor, pairs, strict=True)]
        loss = np.array([np.square(r).mean() / 2 for r in residuals])
        ceiling = 1e6 * loss.sum() if count == 0 else ceiling
        if not loss.sum() <= ceiling:
            return MultiTaskTraining(net, loss, count, TrainOutcome.DIVERGED)
        if loss.sum() <= stop_loss:
            return MultiTaskTraining(net, loss, count, TrainOutcome.REACHED_LOSS)
        rates = [step * weight / len(r) for weight, r in zip(weights, residuals, strict=True)]
        forces = [rate * (X @ r) for rate, r, (X, _) in zip(rates, residuals, pairs, strict=True)]
        net = _moved(net, np.stack(forces)) if count < max_steps else net
    return MultiTaskTraining(net, loss, max_steps, TrainOutcome.STEP_LIMIT)


def _moved(net: MultiOutputNetwork, force: Array) -> MultiOutputNetwork:
    """The network after a step along ``force`` (outputs, d), minus the gradients of the predictors."""
    return MultiOutputNetwork(
        net.w_plus + (force * net.v_plus).sum(0),
        net.v_plus + force * net.w_plus,
        net.w_minus - (force * net.v_minus).sum(0),
        net.v_minus - force * net.w_minus,
    )


def _refuse_unstable(step: float, limits: Array) -> None:
    worst = np.min(limits)
    if step >= worst:
        raise ValueError(
            f"step = {step} is unstable: it must be below {worst:.3g}, which is 2 over the largest "
            "eigenvalue of the tangent kernel at the start (of the worst setting). Above it the loss may "
            "still vanish, but not at gradient flow's solution; pass allow_unstable=True to see that happen"
        )


class _Run:
    """Results of all trainings, and the loop that fills in those that share X."""

    def __init__(
        self,
        weights: Array,
        levels: Array,
        train_hidden: bool,
        dtype: torch.dtype,
        device: str | torch.device,
    ) -> None:
        count, _, d = weights.shape
        self.hidden = float(train_hidden)
        self.options = {"dtype": dtype, "device": device}
        self.levels = torch.tensor(np.append(levels, -1.0), **self.options)
        self.weights = torch.tensor(weights, **self.options)
        self.steps, self.loss = np.zeros(count, int), np.zeros(count)
        self.steps_at = np.full((count, len(levels)), -1)
        self.predictors = np.full((count, len(levels), d), np.nan)
        self.outcome = np.full(count, TrainOutcome.STEP_LIMIT, object)

    def result(self, batch: tuple[int, ...], levels: Array) -> Training:
        weights = np.moveaxis(_host(self.weights), 1, 0)
        network = DiagonalNetwork(*weights.reshape((4, *batch, weights.shape[-1])))
        fields = {n: getattr(self, n) for n in ("steps", "loss", "steps_at", "predictors", "outcome")}
        shaped = {n: a.reshape(batch + a.shape[1:])[()] for n, a in fields.items()}
        return Training(network=network, levels=levels, **shaped)

    @torch.no_grad()
    def descend(self, X: Array, y: Array, at: Array, step: float, max_steps: int) -> None:
        """Train the networks in the rows ``at`` until each has reached the last level, or diverged."""
        X, y = torch.tensor(X, **self.options), torch.tensor(y, **self.options)
        passed = torch.zeros(len(at), dtype=torch.int64, device=X.device)
        now = before = self.weights[at].unbind(1)
        for count in range(max_steps + 1):
            up, vp, um, vm = now
            w = up * vp - um * vm
            residual = y - w @ X
            loss = residual.square().mean(-1) / 2
            if count == 0:
                ceiling = 1e6 * loss
            lost = ~(loss <= ceiling)
            if count == max_steps or (lost | (loss <= self.levels[passed])).any():
                passed = self.checkpoint(at, passed, loss, w, count)
                reached = passed == len(self.levels) - 1
                last = [torch.where(lost[:, None], b, a) for a, b in zip(now, before, strict=True)]
                ended = lost | reached | (count == max_steps)
                self.store(at[_host(ended)], [a[ended] for a in last], loss[ended], count)
                self.outcome[at[_host(reached)]] = TrainOutcome.REACHED_LOSS
                self.outcome[at[_host(lost)]] = TrainOutcome.DIVERGED
                if ended.all():
                    return
                go = ~ended
                at, passed, y, residual, ceiling = at[_host(go)], passed[go], y[go], residual[go], ceiling[go]
                up, vp, um, vm = now = [a[go] for a in now]
            force = residual @ X.T * (step / X.shape[1])
            below = self.hidden * force
            before, now = now, (up + vp * below, vp + up * force, um - vm * below, vm - um * force)

    def checkpoint(self, at: Array, passed: Tensor, loss: Tensor, w: Tensor, count: int) -> Tensor:
        """Keep predictors at every level that a loss has come down to; how many each has now passed."""
        while (lower := loss <= self.levels[passed]).any():
            rows, level = at[_host(lower)], _host(passed[lower])
            self.steps_at[rows, level], self.predictors[rows, level] = count, _host(w[lower])
            passed = passed + lower
        return passed

    def store(self, rows: Array, weights: list[Tensor], loss: Tensor, count: int) -> None:
        self.weights[rows] = torch.stack(weights, 1)
        self.steps[rows], self.loss[rows] = count, _host(loss)


def _host(tensor: Tensor) -> Array:
    return tensor.cpu().numpy()
