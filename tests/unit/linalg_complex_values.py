"""Writes linalg_complex_values.hpp: what PyTorch gives for linear algebra over complex matrices. For each case the
value of a loss, and three projections of its gradient by the matrix. Run it in this folder: python3 FILE > HEADER.hpp"""
import torch

L = torch.linalg
C = torch.complex128


def some(shape, seed):
    count = 1
    for extent in shape:
        count *= extent
    k = torch.arange(count, dtype=torch.float64)
    return torch.complex(torch.sin(k * k * 0.37 + k + seed), torch.sin(k * k * 0.21 + 2 * k + seed + 1)).reshape(shape)


def weighted(y, seed):
    w = some(y.shape, seed)
    return (y * w).real.sum() if y.is_complex() else (y * w.real).sum()


def positive(a):
    return a @ a.mH + torch.eye(a.shape[-1], dtype=C)


def hermitian(a):
    return (a + a.mH) / 2


def right(a, columns=2):
    return some(a.shape[:-1] + (columns,), 5)


def shifted(a):
    return a + 2 * torch.eye(a.shape[-1], dtype=C)


def svd(a):
    return L.svd(a, full_matrices=False)


def polar(a):
    u, _, vh = svd(a)
    return u @ vh


def eig_numbers(a):
    values, vectors = L.eig(a)
    return ((vectors.abs() ** 2) * (values.abs() ** 2).unsqueeze(-2)).sum(-1)


SQUARE = [(3, 3), (1, 1), (2, 2, 2), (4, 4)]
ANY = [(3, 3), (4, 2), (2, 3), (2, 3, 2)]
FUNCTIONS = {
    "solve": (lambda a: L.solve(a, right(a)), SQUARE),
    "solve from the right": (lambda a: L.solve(a, right(a).mT, left=False), SQUARE[:2]),
    "inv": (lambda a: L.inv(a), SQUARE),
    "det": (lambda a: L.det(a), SQUARE),
    "sign": (lambda a: L.slogdet(a)[0], SQUARE),
    "logabsdet": (lambda a: L.slogdet(a)[1], SQUARE),
    "cholesky": (lambda a: L.cholesky(positive(a)), SQUARE),
    "cholesky upper": (lambda a: L.cholesky(positive(a), upper=True), SQUARE[:3]),
    "cholesky_solve": (lambda a: torch.cholesky_solve(right(a), L.cholesky(positive(a))), SQUARE[:3]),
    "cholesky_solve upper": (lambda a: torch.cholesky_solve(right(a), L.cholesky(positive(a), upper=True), upper=True), SQUARE[:3]),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(L.cholesky(positive(a))), SQUARE[:3]),
    "solve_triangular": (lambda a: L.solve_triangular(shifted(a), right(a), upper=False), SQUARE),
    "solve_triangular upper": (lambda a: L.solve_triangular(shifted(a), right(a), upper=True), SQUARE[:3]),
    "solve_triangular unit": (lambda a: L.solve_triangular(a, right(a), upper=True, unitriangular=True), SQUARE[:3]),
    "solve_triangular right": (lambda a: L.solve_triangular(shifted(a), right(a).mT, upper=False, left=False), SQUARE[:2]),
    "eigh values": (lambda a: L.eigh(hermitian(a))[0], SQUARE),
    "eigh vectors": (lambda a: L.eigh(hermitian(a))[1].abs() ** 2, SQUARE),
    "eigvalsh upper": (lambda a: L.eigvalsh(hermitian(a), "U"), SQUARE[:3]),
    "svdvals": (lambda a: L.svdvals(a), ANY),
    "svd left": (lambda a: svd(a)[0].abs() ** 2, ANY),
    "svd right": (lambda a: svd(a)[2].abs() ** 2, ANY),
    "svd phases": (polar, ANY),
    "pinv": (lambda a: L.pinv(a), ANY),
    "lstsq": (lambda a: L.pinv(a) @ right(a), ANY),
    "lstsq of full rank": (lambda a: L.pinv(a) @ right(a), ANY),
    "matrix_exp": (lambda a: torch.matrix_exp(a), SQUARE),
    "matrix_power": (lambda a: L.matrix_power(a, -2), SQUARE[:3]),
    "nuclear norm": (lambda a: L.matrix_norm(a, "nuc"), ANY),
    "condition": (lambda a: L.svdvals(a)[..., 0] / L.svdvals(a)[..., -1], ANY),
    "eigvals": (lambda a: (L.eigvals(a) ** 3).sum(-1), SQUARE),
    "eig": (eig_numbers, SQUARE),
    "eig of real": (lambda a: eig_numbers(a.real + 0j), SQUARE),
}

print("""// What PyTorch gives, made by linalg_complex_values.py. Do not edit.
#pragma once

#include <array>
#include <vector>

struct ComplexMatrixCase {
  const char* function;
  std::vector<long> shape;
  double loss;
  std::array<double, 3> slopes;  // real(sum(conj(gradient) * weights)) for weights of seeds 11, 12, 13
};

inline const std::vector<ComplexMatrixCase>& complex_matrix_cases() {
  static const std::vector<ComplexMatrixCase> cases{""")
for name, (function, shapes) in FUNCTIONS.items():
    for shape in shapes:
        a = some(shape, 3).requires_grad_()
        loss = weighted(function(a), 7)
        loss.backward()
        slopes = [(a.grad.conj() * some(shape, seed)).real.sum().item() for seed in (11, 12, 13)]
        numbers = ", ".join(f"{slope:.13g}" for slope in slopes)
        print(f'      {{"{name}", {{{", ".join(map(str, shape))}}}, {loss.item():.13g}, {{{{{numbers}}}}}}},')
print("""  };
  return cases;
}""")
