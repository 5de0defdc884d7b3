#!/usr/bin/env python3
"""Prints random_cases.hpp: for each distribution and parameters, what part of all numbers SciPy has at or below some
places; and derivatives of gamma quantiles by mpmath, held against PyTorch's. random_cases_test.cpp draws the numbers.

Usage: random_cases.py > random_cases.hpp
"""
import mpmath
import numpy as np
import scipy
import torch
from scipy import stats

CASES, CELLS = 32, 12


def spread(low, high, count=CASES):
    """Numbers between them, by equal factors."""
    return low * (high / low) ** (np.arange(count) / (count - 1))


def between(low, high, seed):
    return low + (high - low) * (0.5 + 0.5 * np.sin(2.7 * np.arange(CASES) + seed))


def weights(case):
    """Of 3 to 7 classes, some of them without any."""
    w = np.round(8 * (1.1 + np.sin(1.9 * np.arange(3 + case % 5) + 0.7 * case))) / 8
    return w if w.sum() > 0 else w + 1


def weights_rows():
    return [(list(w), stats.rv_discrete(values=(np.arange(len(w)), w / w.sum()))) for w in map(weights, range(CASES))]


def of(distribution, *parameters):
    """Rows of parameters and the distribution with them."""
    return [(list(p), distribution(*p)) for p in zip(*parameters)]


def dirichlet_rows():
    return [([a, b, c], stats.beta(a, b + c)) for a, b, c in zip(spread(0.05, 30), between(0.2, 4, 1), between(0.1, 9, 2))]


def vector_rows():
    """x - y of normal vectors (x, y) with these means, variances and correlation."""
    rows = zip(between(-3, 3, 0), between(-2, 2, 1), spread(0.01, 50), between(0.1, 4, 2), between(-0.95, 0.95, 3))
    return [([m, n, v, w, r], stats.norm(m - n, np.sqrt(v + w - 2 * r * np.sqrt(v * w)))) for m, n, v, w, r in rows]


WHOLE = np.arange(2, 2 + CASES)
LOCATION, SCALE = between(-40, 40, 0.3), spread(0.05, 1e3)
EVEN = of(lambda n: stats.randint(0, n), WHOLE)
ROWS = {
    "rand": of(lambda n: stats.uniform(), WHOLE),
    "randn": of(lambda n: stats.norm(), WHOLE),
    "uniform": of(lambda a, b: stats.uniform(a, b - a), LOCATION, LOCATION + SCALE),
    "normal": of(stats.norm, LOCATION, SCALE),
    "log_normal": of(lambda m, s: stats.lognorm(s, scale=np.exp(m)), between(-3, 3, 1), spread(0.02, 3)),
    "exponential": of(lambda r: stats.expon(scale=1 / r), spread(1e-4, 1e4)),
    "laplace": of(stats.laplace, LOCATION, SCALE),
    "cauchy": of(stats.cauchy, LOCATION, SCALE),
    "truncated_normal": of(stats.truncnorm, between(-6, 3, 1), between(-6, 3, 1) + spread(0.05, 8)),
    "geometric": of(stats.geom, np.append(spread(0.01, 0.99, CASES - 1), 1.0)),
    "bernoulli": of(lambda p: stats.binom(1, p), np.append(np.linspace(0, 1, CASES - 1), 0.3)),
    "poisson": of(stats.poisson, spread(0.01, 1e5)),
    "binomial": of(stats.binom, np.round(spread(1, 1e5)), between(0.001, 0.999, 2)),
    "gamma": of(lambda a, r: stats.gamma(a, scale=1 / r), spread(0.05, 1e4), between(0.1, 9, 1)),
    "standard_gamma": of(stats.gamma, spread(0.05, 1e5)),
    "beta": of(stats.beta, spread(0.05, 200), between(0.1, 30, 2)),
    "dirichlet": dirichlet_rows(),
    "student_t": of(stats.t, spread(0.2, 1e3)),
    "multivariate_normal": vector_rows(),
    "randint": of(lambda a, n: stats.randint(a, a + n), np.round(LOCATION), np.round(spread(2, 1e6))),
    "randperm": EVEN, "permutation": EVEN,
    "categorical": weights_rows(), "multinomial": weights_rows(), "choice": weights_rows(),
    "bits": of(lambda k: stats.randint(0, 256), WHOLE),   # the lowest byte
}


def places(distribution):
    """Where the distribution function is looked at, in f32's digits, and it there."""
    x = np.unique(np.float64([f"{x:.7g}" for x in distribution.ppf(np.arange(1, CELLS) / CELLS)]))
    x = x[np.isfinite(x)]
    return [(v, c) for v, c in zip(x, distribution.cdf(x)) if 1e-9 < c < 1 - 1e-9]


def slope(a, log_x):
    """d(log x) / da where P(a, x) stays."""
    a, log_x = mpmath.mpf(a), mpmath.mpf(log_x)
    x = mpmath.exp(log_x)
    if x < a + 1:   # P = e^-x x^a / gamma(a + 1) 1F1(1, a + 1, x)
        function = lambda t: mpmath.log(mpmath.hyp1f1(1, t + 1, x)) + t * log_x - x - mpmath.loggamma(t + 1)
        change = mpmath.exp(function(a)) * mpmath.diff(function, a, h=a * mpmath.mpf(10) ** -12)
    else:
        function = lambda t: -mpmath.gammainc(t, x, mpmath.inf, regularized=True)
        step = a * mpmath.mpf(10) ** -15
        change = (function(a + step) - function(a - step)) / (2 * step)
    return -change / mpmath.exp(a * log_x - x - mpmath.loggamma(a))


def slopes():
    mpmath.mp.dps = 60
    for a in (1e-6, 1e-3, 0.05, 0.3, 0.9, 1.0, 1.5, 3.7, 10.0, 60.0, 199.0, 201.0, 1000.0, 1e4):
        for step in (-4, -1.5, -0.2, 0, 0.6, 3):
            log_x = 0.3 * step / a - 1 if a < 0.2 and step <= 0 else 3 * step + np.log(a) if a < 1 else np.log(a) + step / np.sqrt(a)
            want = slope(a, log_x)
            if a > 1e-2 and log_x > -50 and abs(step) < 2:
                x = torch.tensor(np.exp(log_x), dtype=torch.float64)
                by_torch = torch._standard_gamma_grad(torch.tensor(a, dtype=torch.float64), x) / x
                assert abs(by_torch - float(want)) < 0.1 * abs(float(want)), (a, log_x, by_torch, want)
            yield f"{a!r} {float(log_x)!r} {float(want)!r}"


def main():
    lines = []
    for name, rows in ROWS.items():
        assert len(rows) == CASES, name
        for parameters, distribution in rows:
            at = places(distribution)
            lines.append(f"{name} " + " ".join(f"{p:.10g}" for p in parameters) + " ; " + " ".join(f"{x:.7g} {c:.7g}" for x, c in at))
    print(f"// Made by random_cases.py with SciPy {scipy.__version__} and mpmath {mpmath.__version__}.")
    print("#pragma once\n")
    print("// A distribution, its parameters; places, and what part of all numbers is at or below each.")
    print('inline constexpr const char* random_cases = R"(' + "\n".join(lines[:400]) + "\n)\"\nR\"(" + "\n".join(lines[400:]) + '\n)";\n')
    print("// a, the logarithm of x, and its derivative by a where the distribution function of gamma numbers is kept.")
    print('inline constexpr const char* gamma_slopes = R"(' + "\n".join(slopes()) + '\n)";')


main()
