"""What every Gaussian filter is: a linear operator on N points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Literal, TypeVar

from densefield.errors import InputError

A = TypeVar("A")  # numpy.ndarray or torch.Tensor

Derivative = Literal["gaussian", "lattice"]

DENSE_LIMIT = 20_000  # points; a matrix of more would not fit a usual memory (1.6 GB in float32)


class GaussianFilter(ABC, Generic[A]):
    """The N×N kernel matrix K, with k(i,j) ≈ exp(-½‖x_i - x_j‖²), known by what it does to values.

    Values are (N, C), or (B, N, C) for a batch filtered by the same K.
    """

    @property
    @abstractmethod
    def num_points(self) -> int:
        """N, the number of points."""

    @abstractmethod
    def apply(self, values: A, out: A | None = None) -> A:
        """K v for values (N, C) or (B, N, C); written into `out` where it is given."""

    @abstractmethod
    def apply_adjoint(self, values: A, out: A | None = None) -> A:
        """Kᵀ v for values (N, C) or (B, N, C); written into `out` where it is given."""

    @abstractmethod
    def diagonal(self) -> A:
        """k(i,i) of this very operator for every point, (N,)."""

    @abstractmethod
    def identity(self, first: int, last: int) -> A:
        """Columns first…last-1 of the N×N unit matrix, (N, last - first), in this filter's array type."""

    def to_dense(self) -> A:
        """The matrix K itself, (N, N), for N up to 20,000."""
        if self.num_points > DENSE_LIMIT:
            raise InputError(
                f"to_dense() of {self.num_points} points would hold {self.num_points**2:.1e} numbers; "
                f"at most {DENSE_LIMIT} points are made dense. Use apply() on the columns you need."
            )
        return self.apply(self.identity(0, self.num_points))


class FeatureFilter(GaussianFilter[A]):
    """A Gaussian filter on features (N, d), differentiable with respect to them."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d, the number of features."""

    @abstractmethod
    def gradients(self, cotangent: A, values: A, derivative: Derivative = "gaussian") -> tuple[A, A]:
        """Kᵀ g and ∂⟨g, K v⟩/∂x: what goes back to values and to features, (…, N, C) and (N, d).

        The derivative is the Gaussian's own, with its sums by this filter; or, for a lattice, that of the function
        which the lattice computes: cheaper, and exact inside each simplex, but farther from the Gaussian's.
        """
